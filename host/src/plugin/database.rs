//! A database of the config looked at by itself: no destination, no plugin.

use std::time::Duration;

use super::capability::sql;
use super::engine::Runtime;
use super::loaded::run_on;
use super::spec::SqlGrant;

impl Runtime {
    /// Connects as a plugin's first transaction would, and returns what the database calls itself. The
    /// connection stays in the pool.
    pub async fn ask_database(
        &self,
        name: &str,
        grant: &SqlGrant,
        limit: Duration,
    ) -> Result<String, String> {
        let guests = self.inner.guests.handle();
        let pool = {
            let _on_the_guests_threads = guests.enter();
            sql::pool(name, grant, &self.inner.pools, &self.inner.clock)?
        };
        let asked = run_on(guests, async move { sql::ask(pool, limit).await }).await;
        asked.unwrap_or_else(|error| Err(format!("the host failed while it asked: {error}")))
    }
}
