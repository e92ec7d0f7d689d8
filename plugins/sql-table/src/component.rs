//! The plugin as the host sees it: contract in, contract out.

use outhaul_ledger::Keeper;
use outhaul_plugin::sql::Dialect;
use outhaul_plugin::{
    Batch, Check, ConfigureError, Describe, Description, Destination, Event, Failure, Need, Outcome,
    SettingsProblem,
};

use crate::settings::{Rule, SCHEMA, Settings};

struct SqlTable {
    keeper: Keeper,
    settings: Settings,
}

impl Destination for SqlTable {
    type Settings = Settings;

    fn configure(settings: Settings) -> Result<Self, ConfigureError> {
        let problems = settings.problems();
        if !problems.is_empty() {
            let problems = problems.into_iter();
            return Err(ConfigureError::Settings(
                problems.map(|(pointer, message)| SettingsProblem { pointer, message }).collect(),
            ));
        }
        let none = |_: Dialect| Vec::new();
        let create: Option<&dyn Fn(Dialect) -> Vec<String>> =
            if settings.create_tables { Some(&none) } else { None };
        let of_rule = |(index, rule): (usize, &Rule)| (format!("/rules/{index}/table"), rule.table.clone());
        let tables = settings.rules.iter().enumerate().map(of_rule).collect();
        let keeper = Keeper::open(&settings.database, settings.ledger.clone(), tables, create)?;
        Ok(Self { keeper, settings })
    }

    fn deliver(&mut self, event: Event) -> Outcome {
        self.keeper.deliver(&event, &self.settings)
    }
}

impl Batch for SqlTable {
    fn deliver_batch(&mut self, events: Vec<Event>) -> Vec<Outcome> {
        self.keeper.deliver_batch(&events, &self.settings)
    }
}

impl Check for SqlTable {
    fn check(&mut self) -> Result<(), Failure> {
        let dialect = self.keeper.database().dialect();
        let probes: Vec<String> = self.settings.rules.iter().map(|rule| rule.probe(dialect)).collect();
        self.keeper.check(&probes)
    }
}

impl Describe for SqlTable {
    fn describe() -> Description {
        Description::new("sql-table", env!("CARGO_PKG_VERSION"), SCHEMA).needs(Need::new(
            "sql",
            "",
            "the database of the setting database, with the tables and the ledger",
        ))
    }
}

outhaul_plugin::export!(SqlTable with batch, describe, check);
