//! Hosts and their configurations: who writes the routes, and which destinations there are.

use std::collections::BTreeMap;

use sqlx::types::Json;
use sqlx::{PgConnection, Row};

use super::*;

struct Generation {
    number: i64,
    is_current: bool,
    was_seen: bool,
}

impl PostgresStore {
    pub(super) async fn register_host(&self, host: &HostRegistration) -> StoreResult<Registered> {
        let statements = &self.statements;
        let mut transaction = self.transaction().await?;
        sqlx::query(statements.register_lock.clone()).execute(&mut *transaction).await.map_err(map)?;
        // A later statement than the lock, so that it sees what the last holder wrote.
        let mut generation = self.generation(&mut transaction, &host.config_digest).await?;
        let takes_over = match &host.takeover {
            Takeover::IfNeverSeen => !generation.was_seen,
            Takeover::Never => false,
            Takeover::UnlessCurrent => !generation.is_current,
            Takeover::UnlessCurrentOr(whole) => {
                !generation.is_current && !self.generation(&mut transaction, whole).await?.is_current
            }
        };
        if takes_over {
            generation.number = self.take_over(&mut transaction, host).await?;
            generation.is_current = true;
        }
        let known = self.known_destinations(&mut transaction).await?;
        if generation.is_current {
            self.revive_changed(&mut transaction, host, &known).await?;
            let wake = if self.options.wake { "notify" } else { "poll" };
            sqlx::query(statements.set_wake.clone())
                .bind(wake)
                .execute(&mut *transaction)
                .await
                .map_err(map)?;
        }
        sqlx::query(statements.announce_host.clone())
            .bind(&host.host_id)
            .bind(&host.version)
            .bind(&host.config_digest)
            .bind(schema::newest_known())
            .execute(&mut *transaction)
            .await
            .map_err(map)?;
        transaction.commit().await.map_err(map)?;
        Ok(self.registered(host, &generation, &known))
    }

    fn registered(
        &self,
        host: &HostRegistration,
        generation: &Generation,
        known: &BTreeMap<String, i64>,
    ) -> Registered {
        let mut destinations = Vec::new();
        for config in &host.destinations {
            let id = known.get(&config.name).map(|id| DestinationId(*id));
            if let (Some(id), Order::Key(_)) = (id, config.order) {
                self.keeps_order(id);
            }
            destinations.push((config.name.clone(), id));
        }
        let standing =
            if generation.is_current { ConfigStanding::Current } else { ConfigStanding::Superseded };
        Registered { destinations, generation: generation.number, standing }
    }

    async fn generation(&self, connection: &mut PgConnection, digest: &str) -> StoreResult<Generation> {
        let row = sqlx::query(self.statements.generations.clone())
            .bind(digest)
            .fetch_one(connection)
            .await
            .map_err(map)?;
        Ok(Generation {
            number: row.try_get("generation").map_err(map)?,
            is_current: row.try_get("is_current").map_err(map)?,
            was_seen: row.try_get("was_seen").map_err(map)?,
        })
    }

    pub(super) async fn known_destinations(
        &self,
        connection: &mut PgConnection,
    ) -> StoreResult<BTreeMap<String, i64>> {
        let rows =
            sqlx::query(self.statements.destinations.clone()).fetch_all(connection).await.map_err(map)?;
        rows.iter()
            .map(|row| Ok((row.try_get("name").map_err(map)?, row.try_get("id").map_err(map)?)))
            .collect()
    }

    async fn take_over(&self, connection: &mut PgConnection, host: &HostRegistration) -> StoreResult<i64> {
        let statements = &self.statements;
        let generation: i64 = sqlx::query_scalar(statements.take_generation.clone())
            .bind(&host.config_digest)
            .bind(&host.host_id)
            .fetch_one(&mut *connection)
            .await
            .map_err(map)?;
        let mut known = self.known_destinations(connection).await?;
        let (mut patterns, mut targets, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for config in &host.destinations {
            let id = self.adopt_destination(connection, config, &mut known).await?;
            kept.push(id);
            for topic in &config.topics {
                patterns.push(topic.clone());
                targets.push(id);
            }
        }
        sqlx::query(statements.remove_destinations.clone())
            .bind(kept)
            .execute(&mut *connection)
            .await
            .map_err(map)?;
        sqlx::query(statements.clear_routes.clone()).execute(&mut *connection).await.map_err(map)?;
        sqlx::query(statements.add_routes.clone())
            .bind(patterns)
            .bind(targets)
            .bind(generation)
            .execute(connection)
            .await
            .map_err(map)?;
        Ok(generation)
    }

    /// The destination of this name: the one there is, the one it was renamed from, or a new one.
    async fn adopt_destination(
        &self,
        connection: &mut PgConnection,
        config: &DestinationConfig,
        known: &mut BTreeMap<String, i64>,
    ) -> StoreResult<i64> {
        let renamed = || config.renamed_from.as_ref().and_then(|old| known.get(old)).copied();
        let id = match known.get(&config.name).copied().or_else(renamed) {
            Some(id) => id,
            None => sqlx::query_scalar(self.statements.add_destination.clone())
                .bind(&config.name)
                .bind(&config.digest)
                .fetch_one(&mut *connection)
                .await
                .map_err(map)?,
        };
        known.retain(|_, other| *other != id);
        known.insert(config.name.clone(), id);
        sqlx::query(self.statements.adopt_destination.clone())
            .bind(id)
            .bind(&config.name)
            .bind(ordering(config.order))
            .execute(connection)
            .await
            .map_err(map)?;
        Ok(id)
    }

    async fn revive_changed(
        &self,
        connection: &mut PgConnection,
        host: &HostRegistration,
        known: &BTreeMap<String, i64>,
    ) -> StoreResult<()> {
        for config in &host.destinations {
            sqlx::query(self.statements.revive_changed.clone())
                .bind(known.get(&config.name))
                .bind(&config.digest)
                .execute(&mut *connection)
                .await
                .map_err(map)?;
        }
        Ok(())
    }

    pub(super) async fn beat(&self, host_id: &str, notes: &HostNotes) -> StoreResult<ConfigStanding> {
        let mut work = self.one().await?;
        let is_current: Option<bool> = sqlx::query_scalar(self.statements.heartbeat.clone())
            .bind(host_id)
            .bind(Json(without_nul(notes)))
            .fetch_optional(work.connection())
            .await
            .map_err(map)?;
        work.done().await?;
        match is_current {
            Some(true) => Ok(ConfigStanding::Current),
            Some(false) => Ok(ConfigStanding::Superseded),
            None => Err(StoreError::Refused(format!(
                "host {host_id:?} is not known, or was silent for a week; restart it"
            ))),
        }
    }
}

/// PostgreSQL's JSON holds no NUL either, and parts of the texts may be a plugin's.
fn without_nul(notes: &HostNotes) -> HostNotes {
    let mut notes = notes.clone();
    notes.problems.iter_mut().for_each(|told| told.problem = text(&told.problem));
    let of_lanes = notes.loaded.iter_mut().map(|told| &mut told.reload_error);
    for error in of_lanes.chain([&mut notes.reload_error]).flatten() {
        *error = text(error);
    }
    let canaries = notes.loaded.iter_mut().flat_map(|told| &mut told.canary);
    for why in canaries.flat_map(|canary| &mut canary.off) {
        *why = text(why);
    }
    notes
}

/// The numbers in `outbox_destination.ordering`.
pub(super) fn ordering(order: Order) -> i16 {
    match order {
        Order::None => 0,
        Order::Key(OnDead::Block) => 1,
        Order::Key(OnDead::Skip) => 2,
    }
}
