//! Hosts and the configurations they bring: which is current, and what it makes of destinations
//! and routes.

use serde_json::json;
use sqlx::{Row, SqliteConnection, query};

use super::SqliteStore;
use super::errors::Work;
use super::rows::*;
use super::schema::NEWEST;
use crate::domain::DestinationId;
use crate::store::*;

impl SqliteStore {
    /// One transaction, so that a host finds either all of a configuration or nothing of it.
    pub(super) async fn register_host(&self, host: &HostRegistration) -> Work<Registered> {
        let mut tx = self.begin().await?;
        let row = query(self.sql.generations.clone()).bind(&host.config_digest).fetch_one(&mut *tx).await?;
        let mut generation: i64 = row.try_get("generation")?;
        let current = maybe_text(&row, "config_digest")?;
        let is_current = current.as_ref() == Some(&host.config_digest);
        let takes_over = match &host.takeover {
            Takeover::IfNeverSeen => !row.try_get::<bool, _>("was_seen")?,
            Takeover::Never => false,
            Takeover::UnlessCurrent => !is_current,
            Takeover::UnlessCurrentOr(whole) => !is_current && current.as_ref() != Some(whole),
        };
        if takes_over {
            generation += 1;
            self.take_over(&mut tx, host, generation).await?;
        }
        if takes_over || is_current {
            self.keep_digests(&mut tx, host).await?;
        }
        query(self.sql.upsert_host.clone())
            .bind(&host.host_id)
            .bind(&host.version)
            .bind(&host.config_digest)
            .bind(NEWEST)
            .execute(&mut *tx)
            .await?;
        let mut destinations = Vec::new();
        for config in &host.destinations {
            destinations.push((config.name.clone(), self.find_lane(&mut tx, &config.name).await?));
        }
        tx.commit().await?;
        if takes_over {
            self.look_again_at_unrouted();
        }
        let standing =
            if takes_over || is_current { ConfigStanding::Current } else { ConfigStanding::Superseded };
        Ok(Registered { destinations, generation, standing })
    }

    async fn take_over(
        &self,
        tx: &mut SqliteConnection,
        host: &HostRegistration,
        generation: i64,
    ) -> sqlx::Result<()> {
        query(self.sql.take_generation.clone())
            .bind(generation)
            .bind(&host.config_digest)
            .bind(&host.host_id)
            .execute(&mut *tx)
            .await?;
        query(self.sql.clear_routes.clone()).execute(&mut *tx).await?;
        let mut kept = Vec::new();
        for config in &host.destinations {
            let id = self.adopt_name(tx, config).await?;
            kept.push(id.0);
            query(self.sql.configure_lane.clone())
                .bind(id.0)
                .bind(config.order.as_str())
                .execute(&mut *tx)
                .await?;
            for pattern in &config.topics {
                query(self.sql.add_route.clone())
                    .bind(pattern)
                    .bind(id.0)
                    .bind(generation)
                    .execute(&mut *tx)
                    .await?;
            }
        }
        query(self.sql.remove_lanes.clone()).bind(json!(kept).to_string()).execute(&mut *tx).await?;
        Ok(())
    }

    /// The destination of this name: the one there is, the renamed one, or a new one.
    async fn adopt_name(
        &self,
        tx: &mut SqliteConnection,
        config: &DestinationConfig,
    ) -> sqlx::Result<DestinationId> {
        if let Some(id) = self.find_lane(tx, &config.name).await? {
            return Ok(id);
        }
        if let Some(old) = &config.renamed_from
            && let Some(id) = self.find_lane(tx, old).await?
        {
            query(self.sql.rename_lane.clone()).bind(id.0).bind(&config.name).execute(&mut *tx).await?;
            return Ok(id);
        }
        let row = query(self.sql.create_lane.clone())
            .bind(&config.name)
            .bind(&config.digest)
            .fetch_one(&mut *tx)
            .await?;
        row.try_get("id").map(DestinationId)
    }

    /// A destination whose own settings changed may work now, so a stopped one is tried again.
    async fn keep_digests(&self, tx: &mut SqliteConnection, host: &HostRegistration) -> sqlx::Result<()> {
        for config in &host.destinations {
            let Some(id) = self.find_lane(tx, &config.name).await? else { continue };
            let changed = query(self.sql.redigest_lane.clone())
                .bind(id.0)
                .bind(&config.digest)
                .fetch_optional(&mut *tx)
                .await?;
            if changed.is_some() {
                query(self.sql.forget_rejections.clone()).bind(id.0).execute(&mut *tx).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn find_lane(
        &self,
        connection: &mut SqliteConnection,
        name: &str,
    ) -> sqlx::Result<Option<DestinationId>> {
        let row = query(self.sql.find_lane.clone()).bind(name).fetch_optional(connection).await?;
        row.map(|row| row.try_get("id").map(DestinationId)).transpose()
    }

    pub(super) async fn beat(&self, host_id: &str, notes: &HostNotes) -> Work<ConfigStanding> {
        let mut tx = self.begin().await?;
        let row = query(self.sql.heartbeat.clone())
            .bind(host_id)
            .bind(json!(notes).to_string())
            .fetch_optional(&mut *tx)
            .await?;
        tx.commit().await?;
        let Some(row) = row else {
            return Err(StoreError::Refused(format!(
                "host {host_id:?} is not known, or was silent for a week; restart it"
            ))
            .into());
        };
        let is_current: Option<bool> = row.try_get("is_current")?;
        Ok(if is_current == Some(true) { ConfigStanding::Current } else { ConfigStanding::Superseded })
    }
}
