//! How the hot statements read the tables when a million deliveries are pending and a million are
//! done: no walk over a table, no sort of the backlog, a bounded number of rows looked at.

mod postgres;
mod sqlite;
