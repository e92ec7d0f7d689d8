//! The ledger of the database destinations. In one transaction the event's row is inserted into the ledger,
//! whose key is `dedup-id`, and its effect is applied. Whoever finds the row there compares the hash of the
//! content: the same is a duplicate, another is a conflict, and in neither case is anything applied.

mod content;
mod deliver;
mod engine;
mod name;
mod settings;

pub use content::content_hash;
pub use deliver::{Effect, Keeper};
pub use name::Name;
pub use settings::{Column, Columns, Ledger, insert, with_transactions};
