//! What people do to deliveries and lanes; each act and its record are one transaction.

use std::collections::HashMap;

use sqlx::{PgConnection, Row};

use super::errors::map_insert;
use super::pgtime::PgTime;
use super::*;

/// An act on many rows may take longer than a statement of the relay may.
const BULK: Duration = Duration::from_secs(120);
/// Rows of one transaction of an act that has no limit of its own.
const ACT_ROWS: u32 = 10_000;

/// Whose deliveries an act means, as the parameters of its statement.
struct Scope {
    destinations: Vec<i64>,
    events: Option<Vec<i64>>,
    tenant: Option<String>,
}

#[async_trait]
impl Operate for PostgresStore {
    async fn emit(&self, events: &[NewEvent]) -> StoreResult<Vec<Emitted>> {
        let emitted = self.bounded(self.insert_events(events)).await?;
        self.wake.now();
        Ok(emitted)
    }

    async fn lane_reports(&self) -> StoreResult<Vec<LaneReport>> {
        self.bounded(self.report_lanes()).await
    }

    async fn pause(&self, destination: &str, reason: &str, who: &str) -> StoreResult<bool> {
        let statement = self.statements.pause_by_operator.clone();
        self.bounded(self.change_by_operator(destination, who, "pause", statement, Some(reason))).await
    }

    async fn resume(&self, destination: &str, who: &str) -> StoreResult<bool> {
        let statement = self.statements.resume_by_operator.clone();
        self.bounded(self.change_by_operator(destination, who, "resume", statement, None)).await
    }

    async fn deliveries(&self, filter: &DeliveryFilter) -> StoreResult<Vec<DeliveryRow>> {
        self.list(filter).await
    }

    async fn show(&self, tenant: &str, event_id: &str) -> StoreResult<Option<EventReport>> {
        self.bounded(self.report_event(tenant, event_id)).await
    }

    async fn payload(&self, event: EventSeq) -> StoreResult<Option<Bytes>> {
        self.bounded(async {
            let mut work = self.one().await?;
            let payload: Option<Vec<u8>> = sqlx::query_scalar(self.statements.event_payload.clone())
                .bind(event.0)
                .fetch_optional(work.connection())
                .await
                .map_err(map)?;
            work.done().await?;
            Ok(payload.map(Bytes::from))
        })
        .await
    }

    async fn recorded(
        &self,
        destination: &str,
        before: Option<EventSeq>,
        page_rows: u32,
    ) -> StoreResult<RecordedPage> {
        self.bounded(self.read_recorded(destination, before, page_rows)).await
    }

    async fn cancel(&self, target: &Target, who: &str) -> StoreResult<u64> {
        target.require_one()?;
        self.act_on_all(target, who, "cancel", &self.statements.cancel).await
    }

    async fn redeliver(&self, target: &Target, who: &str) -> StoreResult<u64> {
        target.require_one()?;
        self.act_on_all(target, who, "redeliver", &self.statements.redeliver).await
    }

    async fn redrive(&self, order: &RedriveOrder, who: &str) -> StoreResult<u64> {
        let mut transaction = self.begin_act().await?;
        let scope = self.scope(&mut transaction, &order.target).await?;
        let query = sqlx::query(self.statements.redrive.clone())
            .persistent(false)
            .bind(scope.destinations)
            .bind(scope.events)
            .bind(scope.tenant)
            .bind(i64::from(order.limit))
            .bind(wait_us(order.start_after))
            .bind(wait_us(order.stagger))
            .bind(order.ignore_expiry);
        self.finish_act(transaction, query, "redrive", &order.target, who).await
    }

    async fn discard(&self, target: &Target, limit: u32, who: &str) -> StoreResult<u64> {
        self.act(target, limit, who, "discard", &self.statements.discard).await
    }

    async fn hosts(&self) -> StoreResult<Vec<HostReport>> {
        self.bounded(self.report_hosts()).await
    }

    async fn actions(&self, limit: u32) -> StoreResult<Vec<ActionRow>> {
        self.bounded(self.report_actions(limit)).await
    }
}

impl PostgresStore {
    async fn insert_events(&self, events: &[NewEvent]) -> StoreResult<Vec<Emitted>> {
        events.iter().try_for_each(|event| event.check().map_err(StoreError::Refused))?;
        let optional = |pick: fn(&NewEvent) -> &Option<String>| -> Vec<Option<String>> {
            events.iter().map(|event| pick(event).clone()).collect()
        };
        let times = |pick: fn(&NewEvent) -> Option<Timestamp>| -> Vec<Option<PgTime>> {
            events.iter().map(|event| pick(event).map(PgTime)).collect()
        };
        let mut work = self.one().await?;
        let rows = sqlx::query(self.statements.insert_events.clone())
            .bind(events.iter().map(|event| event.tenant.clone()).collect::<Vec<_>>())
            .bind(events.iter().map(|event| event.id.clone()).collect::<Vec<_>>())
            .bind(events.iter().map(|event| event.topic.clone()).collect::<Vec<_>>())
            .bind(events.iter().map(|event| event.payload.clone()).collect::<Vec<_>>())
            .bind(optional(|event| &event.key))
            .bind(events.iter().map(headers).collect::<Vec<_>>())
            .bind(optional(|event| &event.content_type))
            .bind(times(|event| event.available_at))
            .bind(times(|event| event.expires_at))
            .fetch_all(work.connection())
            .await
            .map_err(map_insert)?;
        work.done().await?;
        let mut inserted = HashMap::new();
        for row in &rows {
            let tenant: String = row.try_get("tenant_id").map_err(map)?;
            let id: String = row.try_get("event_id").map_err(map)?;
            inserted.insert((tenant, id), EventSeq(row.try_get("seq").map_err(map)?));
        }
        // Taken out, so that the second of two equal events in one call is one that existed.
        let mut take = |event: &NewEvent| inserted.remove(&(event.tenant.clone(), event.id.clone()));
        Ok(events.iter().map(|event| take(event).map_or(Emitted::Existed, Emitted::Inserted)).collect())
    }

    async fn change_by_operator(
        &self,
        name: &str,
        who: &str,
        action: &str,
        statement: SqlStr,
        reason: Option<&str>,
    ) -> StoreResult<bool> {
        let mut transaction = self.transaction().await?;
        let (id, state) = self.destination(&mut transaction, name).await?;
        if state == LaneState::Removed {
            return Err(StoreError::Refused(format!(
                "destination {name:?} was removed from the config; add it there again to make it active"
            )));
        }
        let mut query = sqlx::query(statement).bind(id);
        if let Some(reason) = reason {
            query = query.bind(text(reason));
        }
        let done = query.execute(&mut *transaction).await.map_err(map)?;
        let has_changed = done.rows_affected() > 0;
        if has_changed {
            let target = Target { destination: Some(name.to_owned()), ..Target::default() };
            self.record(&mut transaction, who, action, &target, 1).await?;
        }
        transaction.commit().await.map_err(map)?;
        self.wake.now();
        Ok(has_changed)
    }

    pub(super) async fn destination(
        &self,
        connection: &mut PgConnection,
        name: &str,
    ) -> StoreResult<(i64, LaneState)> {
        let row = sqlx::query(self.statements.find_destination.clone())
            .bind(name)
            .fetch_optional(connection)
            .await
            .map_err(map)?;
        let row = row.ok_or_else(|| {
            StoreError::Refused(format!(
                "there is no destination {name:?}; `outhaul lanes list` shows those there are"
            ))
        })?;
        Ok((row.try_get("id").map_err(map)?, lanes::lane_state(&row).map_err(map)?))
    }

    async fn scope(&self, connection: &mut PgConnection, target: &Target) -> StoreResult<Scope> {
        let destinations = match &target.destination {
            Some(name) => vec![self.destination(connection, name).await?.0],
            None => self.known_destinations(connection).await?.into_values().collect(),
        };
        let events = match &target.event_id {
            Some(id) => Some(self.events(connection, target.tenant.as_deref(), id).await?),
            None => None,
        };
        Ok(Scope { destinations, events, tenant: target.tenant.clone() })
    }

    pub(super) async fn events(
        &self,
        connection: &mut PgConnection,
        tenant: Option<&str>,
        id: &str,
    ) -> StoreResult<Vec<i64>> {
        sqlx::query_scalar(self.statements.find_events.clone())
            .persistent(false)
            .bind(tenant)
            .bind(id)
            .fetch_all(connection)
            .await
            .map_err(map)
    }

    async fn begin_act(&self) -> StoreResult<Transaction<'static, Postgres>> {
        let mut transaction = self.transaction().await?;
        sqlx::raw_sql(AssertSqlSafe(format!("set local statement_timeout = {}", BULK.as_millis())))
            .execute(&mut *transaction)
            .await
            .map_err(map)?;
        Ok(transaction)
    }

    /// Repeats an act in transactions of a bounded size until nothing is left of its target.
    async fn act_on_all(
        &self,
        target: &Target,
        who: &str,
        action: &str,
        statement: &SqlStr,
    ) -> StoreResult<u64> {
        let mut total = 0;
        loop {
            let count = self.act(target, ACT_ROWS, who, action, statement).await?;
            total += count;
            if count < u64::from(ACT_ROWS) {
                return Ok(total);
            }
        }
    }

    async fn act(
        &self,
        target: &Target,
        limit: u32,
        who: &str,
        action: &str,
        statement: &SqlStr,
    ) -> StoreResult<u64> {
        let mut transaction = self.begin_act().await?;
        let scope = self.scope(&mut transaction, target).await?;
        let query = sqlx::query(statement.clone())
            .persistent(false)
            .bind(scope.destinations)
            .bind(scope.events)
            .bind(scope.tenant)
            .bind(i64::from(limit));
        self.finish_act(transaction, query, action, target, who).await
    }

    async fn finish_act(
        &self,
        mut transaction: Transaction<'static, Postgres>,
        query: sqlx::query::Query<'_, Postgres, sqlx::postgres::PgArguments>,
        action: &str,
        target: &Target,
        who: &str,
    ) -> StoreResult<u64> {
        let rows = query.fetch_all(&mut *transaction).await.map_err(map)?;
        let count = rows.len() as u64;
        if count > 0 {
            self.let_next_of(&mut transaction, &rows).await?;
            self.record(&mut transaction, who, action, target, count).await?;
        }
        transaction.commit().await.map_err(map)?;
        self.wake.now();
        Ok(count)
    }

    async fn record(
        &self,
        connection: &mut PgConnection,
        who: &str,
        action: &str,
        target: &Target,
        count: u64,
    ) -> StoreResult<()> {
        sqlx::query(self.statements.add_action.clone())
            .bind(text(who))
            .bind(action)
            .bind(text(&target.describe()))
            .bind(i64::try_from(count).unwrap_or(i64::MAX))
            .execute(&mut *connection)
            .await
            .map_err(map)?;
        sqlx::query(self.statements.notify.clone()).execute(connection).await.map_err(map)?;
        Ok(())
    }
}

/// Headers as the text of a JSON object of strings; none is null.
fn headers(event: &NewEvent) -> Option<String> {
    let object: serde_json::Map<String, serde_json::Value> =
        event.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    (!object.is_empty()).then(|| serde_json::Value::Object(object).to_string())
}
