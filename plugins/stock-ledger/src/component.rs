//! The plugin as the host sees it: contract in, contract out.

use outhaul_ledger::Keeper;
use outhaul_plugin::sql::Dialect;
use outhaul_plugin::{
    Batch, Check, ConfigureError, Describe, Description, Destination, Event, Failure, Need, Outcome,
    SettingsProblem,
};

use crate::settings::{SCHEMA, Settings};

struct StockLedger {
    keeper: Keeper,
    settings: Settings,
}

impl Destination for StockLedger {
    type Settings = Settings;

    fn configure(settings: Settings) -> Result<Self, ConfigureError> {
        let problems = settings.problems();
        if !problems.is_empty() {
            let problems = problems.into_iter();
            return Err(ConfigureError::Settings(
                problems.map(|(pointer, message)| SettingsProblem { pointer, message }).collect(),
            ));
        }
        let stock = |dialect: Dialect| vec![settings.stock.create(dialect)];
        let create: Option<&dyn Fn(Dialect) -> Vec<String>> =
            if settings.create_tables { Some(&stock) } else { None };
        let tables = vec![("/stock/table".to_owned(), settings.stock.table.clone())];
        let keeper = Keeper::open(&settings.database, settings.ledger.clone(), tables, create)?;
        Ok(Self { keeper, settings })
    }

    fn deliver(&mut self, event: Event) -> Outcome {
        self.keeper.deliver(&event, &self.settings)
    }
}

impl Batch for StockLedger {
    fn deliver_batch(&mut self, events: Vec<Event>) -> Vec<Outcome> {
        self.keeper.deliver_batch(&events, &self.settings)
    }
}

impl Check for StockLedger {
    fn check(&mut self) -> Result<(), Failure> {
        self.keeper.check(&[self.settings.stock.probe(self.keeper.database().dialect())])
    }
}

impl Describe for StockLedger {
    fn describe() -> Description {
        Description::new("stock-ledger", env!("CARGO_PKG_VERSION"), SCHEMA).needs(Need::new(
            "sql",
            "",
            "the database of the setting database, with the stock and its ledger",
        ))
    }
}

outhaul_plugin::export!(StockLedger with batch, describe, check);
