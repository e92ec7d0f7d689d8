//! What plugins reach by `outhaul:sql`, and the destinations built on it, against real databases.

mod lane;
mod ledger;
mod ledger_tables;
mod recipes;
mod sql_errors;
mod sql_limits;
mod sql_logins;
mod sql_outages;
mod sql_sessions;
mod sql_values;
mod stock;
mod table;
mod versions;
