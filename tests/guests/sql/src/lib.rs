//! Runs the steps that an event's payload lists, `[["begin"], ["execute", "insert …", {"integer": 1}]]`,
//! and delivers what came of each as the reference, a JSON array. Nothing here traps unless it is meant to.

mod value;

mod bindings {
    wit_bindgen::generate!({
        path: [
            "../../../wit/deps/io.wit",
            "../../../wit/log",
            "../../../wit/secrets",
            "../../../wit/sql",
            "../../../wit/delivery",
        ],
        inline: "
            package outhaul:sql-guest;
            world plugin {
                include outhaul:delivery/destination@1.0.0;
                import outhaul:sql/sql@1.0.0;
            }
        ",
        world: "outhaul:sql-guest/plugin",
        generate_all,
    });
}

use std::cell::RefCell;

use bindings::exports::outhaul::delivery::deliver::{ConfigureError, Event, Failure, Guest, Receipt};
use bindings::outhaul::delivery::types::Disposition;
use bindings::outhaul::sql::sql::{self, SqlError, Transaction};
use serde_json::{Value as Json, json};

struct Sql;

thread_local! {
    /// Kept from one event to the next, which no plugin should do.
    static KEPT: RefCell<Vec<Transaction>> = const { RefCell::new(Vec::new()) };
}

impl Guest for Sql {
    fn configure(_settings_json: String) -> Result<(), ConfigureError> {
        Ok(())
    }

    fn deliver(event: Event) -> Result<Receipt, Failure> {
        let name = event.key.as_deref().unwrap_or("db");
        let steps: Vec<Vec<Json>> = serde_json::from_slice(&event.payload).expect("steps");
        let found: Vec<Json> = match sql::open(name) {
            Ok(database) => KEPT.with_borrow_mut(|open| {
                steps.iter().map(|step| run(&database, open, step).unwrap_or_else(told)).collect()
            }),
            Err(error) => vec![told(error)],
        };
        let reference = Some(Json::from(found).to_string());
        Ok(Receipt { disposition: Disposition::Delivered, reference, attributes: Vec::new() })
    }
}

fn run(database: &sql::Database, open: &mut Vec<Transaction>, step: &[Json]) -> Result<Json, SqlError> {
    let word = step[0].as_str().expect("a step begins with its name");
    let statement = step.get(1).and_then(Json::as_str).unwrap_or_default();
    let parameters: Vec<sql::Value> = step.iter().skip(2).map(value::from_json).collect();
    let last = || open.last().ok_or(SqlError::Closed);
    Ok(match word {
        "dialect" => json!(format!("{:?} {}", database.dialect(), database.placeholder())),
        "begin" => {
            open.push(database.transaction()?);
            json!("begun")
        }
        "drop" => {
            open.pop();
            json!("dropped")
        }
        "execute" => json!(last()?.execute(statement, &parameters)?),
        "query" => {
            let found = last()?.query(statement, &parameters)?;
            let row = |row: &Vec<sql::Value>| row.iter().map(value::to_json).collect::<Vec<_>>();
            json!({ "columns": found.columns, "rows": found.rows.iter().map(row).collect::<Vec<_>>() })
        }
        "commit" => {
            last()?.commit()?;
            json!("committed")
        }
        "rollback" => {
            last()?.rollback()?;
            json!("rolled back")
        }
        "trap" => panic!("as the event says"),
        "spin" => loop {
            std::hint::spin_loop();
        },
        other => panic!("no such step: {other}"),
    })
}

/// `["unique-violation", "constraint", "the sentence"]`.
fn told(error: SqlError) -> Json {
    let (kind, text) = match error {
        SqlError::UniqueViolation(violation) => {
            return json!(["unique-violation", violation.constraint, violation.message]);
        }
        SqlError::Constraint(text) => ("constraint", text),
        SqlError::Data(text) => ("data", text),
        SqlError::Serialization(text) => ("serialization", text),
        SqlError::Deadlock(text) => ("deadlock", text),
        SqlError::Unavailable(text) => ("unavailable", text),
        SqlError::Denied(text) => ("denied", text),
        SqlError::Timeout(text) => ("timeout", text),
        SqlError::CommitUnknown(text) => ("commit-unknown", text),
        SqlError::Closed => ("closed", String::new()),
        SqlError::Syntax(text) => ("syntax", text),
        SqlError::TooLarge(text) => ("too-large", text),
        SqlError::Other(text) => ("other", text),
    };
    json!([kind, text])
}

bindings::export!(Sql with_types_in bindings);
