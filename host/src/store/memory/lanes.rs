//! Lanes, configurations and hosts.

use std::time::Duration;

use super::model::{HostRow, Lane, Model};
use crate::domain::topic::Pattern;
use crate::domain::{DestinationId, EventSeq, Timestamp};
use crate::store::*;

impl Lane {
    pub(super) fn is_probed_by(&self, token: ProbeToken, now: Timestamp) -> bool {
        self.probe.is_some_and(|(held, until)| held == token && until > now)
    }

    fn is_free_to_probe(&self, now: Timestamp) -> bool {
        self.state == LaneState::Paused
            && self.paused_until.is_some_and(|until| until <= now)
            && self.probe.is_none_or(|(_, until)| until <= now)
    }

    /// Every change of state starts a new epoch and ends whatever probe there was.
    pub(super) fn set_state(&mut self, state: LaneState, reason: Option<String>) {
        self.state = state;
        self.reason = reason;
        self.paused_until = None;
        self.probe = None;
        self.epoch += 1;
        if state != LaneState::Paused {
            self.pauses = 0;
        }
        if state == LaneState::Active {
            self.rejected.clear();
        }
    }
}

impl Model {
    pub fn register(&mut self, host: &HostRegistration, now: Timestamp) -> Registered {
        let current = self.generations.last();
        let is_current = current == Some(&host.config_digest);
        let take_over = match &host.takeover {
            Takeover::IfNeverSeen => !self.generations.contains(&host.config_digest),
            Takeover::Never => false,
            Takeover::UnlessCurrent => !is_current,
            Takeover::UnlessCurrentOr(whole) => !is_current && current != Some(whole),
        };
        if take_over {
            self.take_over(host);
        }
        if take_over || is_current {
            self.revive_changed(host);
        }
        let row = HostRow {
            version: host.version.clone(),
            config_digest: host.config_digest.clone(),
            last_seen: now,
            notes: self.hosts.get(&host.host_id).map(|known| known.notes.clone()).unwrap_or_default(),
        };
        self.hosts.insert(host.host_id.clone(), row);
        Registered {
            destinations: host
                .destinations
                .iter()
                .map(|config| (config.name.clone(), self.find_lane(&config.name)))
                .collect(),
            generation: self.generations.len() as i64,
            standing: self.standing_of(&host.config_digest),
        }
    }

    pub fn find_lane(&self, name: &str) -> Option<DestinationId> {
        self.lanes.iter().find(|(_, lane)| lane.name == name).map(|(id, _)| *id)
    }

    fn standing_of(&self, digest: &str) -> ConfigStanding {
        if self.generations.last().is_some_and(|current| current == digest) {
            ConfigStanding::Current
        } else {
            ConfigStanding::Superseded
        }
    }

    fn take_over(&mut self, host: &HostRegistration) {
        self.generations.push(host.config_digest.clone());
        self.routes.clear();
        let mut kept = Vec::new();
        for config in &host.destinations {
            let id = self.adopt_name(config);
            kept.push(id);
            for topic in &config.topics {
                let pattern = Pattern::parse(topic).expect("a registration holds validated patterns");
                self.routes.push((pattern, id));
            }
            let lane = self.lanes.get_mut(&id).expect("just adopted");
            lane.order = config.order;
            if lane.state == LaneState::Removed {
                lane.set_state(LaneState::Active, None);
            }
        }
        for (id, lane) in &mut self.lanes {
            if !kept.contains(id) && lane.state != LaneState::Removed {
                lane.set_state(LaneState::Removed, Some("not in the current config".to_owned()));
            }
        }
    }

    /// The destination of this name: the one there is, the renamed one, or a new one.
    fn adopt_name(&mut self, config: &DestinationConfig) -> DestinationId {
        if let Some(id) = self.find_lane(&config.name) {
            return id;
        }
        if let Some(id) = config.renamed_from.as_ref().and_then(|old| self.find_lane(old)) {
            self.lanes.get_mut(&id).expect("just found").name = config.name.clone();
            return id;
        }
        let id = DestinationId(self.lanes.keys().last().map_or(1, |last| last.0 + 1));
        let lane = Lane {
            name: config.name.clone(),
            state: LaneState::Active,
            paused_until: None,
            reason: None,
            order: config.order,
            digest: config.digest.clone(),
            epoch: 1,
            pauses: 0,
            probe: None,
            last_success_at: None,
            rejected: Default::default(),
        };
        self.lanes.insert(id, lane);
        id
    }

    fn revive_changed(&mut self, host: &HostRegistration) {
        for config in &host.destinations {
            let lane = self.lanes.values_mut().find(|lane| lane.name == config.name);
            if let Some(lane) = lane.filter(|lane| lane.digest != config.digest) {
                lane.digest = config.digest.clone();
                if lane.state == LaneState::Stopped {
                    lane.set_state(LaneState::Active, None);
                }
            }
        }
    }

    pub fn heartbeat(
        &mut self,
        host_id: &str,
        notes: &HostNotes,
        now: Timestamp,
    ) -> StoreResult<ConfigStanding> {
        let Some(host) = self.hosts.get_mut(host_id) else {
            return Err(StoreError::Refused(format!(
                "host {host_id:?} is not known, or was silent for a week; restart it"
            )));
        };
        host.last_seen = now;
        host.notes = notes.clone();
        let digest = host.config_digest.clone();
        Ok(self.standing_of(&digest))
    }

    pub fn lane_views(&self, destinations: &[DestinationId], now: Timestamp) -> Vec<LaneView> {
        destinations.iter().filter_map(|id| Some(self.lane_view(*id, self.lanes.get(id)?, now))).collect()
    }

    fn lane_view(&self, id: DestinationId, lane: &Lane, now: Timestamp) -> LaneView {
        let due = |suspect| self.rows_of(id).any(|row| row.is_due(now) && row.is_suspect() == suspect);
        let (has_due, has_due_suspect) = (due(false), due(true));
        LaneView {
            destination: id,
            state: lane.state,
            epoch: lane.epoch,
            pauses: lane.pauses,
            paused_until: lane.paused_until,
            has_due,
            has_due_suspect,
            wants_probe: lane.is_free_to_probe(now) && (has_due || has_due_suspect),
            next_due_at: self
                .rows_of(id)
                .filter(|row| row.status == DeliveryStatus::Pending && !row.parked)
                .filter_map(|row| row.due_at.filter(|due| *due > now))
                .min(),
        }
    }

    pub fn take_probe(
        &mut self,
        destination: DestinationId,
        lease: Duration,
        token: ProbeToken,
        now: Timestamp,
    ) -> Option<ProbeToken> {
        let lane = self.lanes.get_mut(&destination).filter(|lane| lane.is_free_to_probe(now))?;
        lane.probe = Some((token, now.plus(lease)));
        Some(token)
    }

    pub fn change_lane(
        &mut self,
        destination: DestinationId,
        epoch: i64,
        change: LaneChange,
        now: Timestamp,
    ) -> bool {
        let Some(lane) = self.lanes.get_mut(&destination).filter(|lane| lane.epoch == epoch) else {
            return false;
        };
        let paused_by_relay = lane.state == LaneState::Paused && lane.paused_until.is_some();
        let probes = |token| paused_by_relay && lane.is_probed_by(token, now);
        match change {
            LaneChange::Pause { wait, reason, probe } => {
                let may = match probe {
                    None => lane.state == LaneState::Active,
                    Some(token) => probes(token),
                };
                if may {
                    lane.set_state(LaneState::Paused, Some(reason));
                    lane.paused_until = Some(now.plus(wait));
                    lane.pauses += 1;
                }
                may
            }
            LaneChange::Stop { reason } => {
                let may = lane.state == LaneState::Active || paused_by_relay;
                if may {
                    lane.set_state(LaneState::Stopped, Some(reason));
                }
                may
            }
            LaneChange::Reopen { probe, success } => {
                let may = probes(probe);
                if may {
                    lane.set_state(LaneState::Active, None);
                    lane.last_success_at = if success { Some(now) } else { lane.last_success_at };
                }
                may
            }
            LaneChange::Revive => {
                let may = lane.state == LaneState::Stopped;
                if may {
                    lane.set_state(LaneState::Active, None);
                }
                may
            }
            LaneChange::DropProbe { probe } => {
                let may = probes(probe);
                if may {
                    lane.probe = None;
                }
                may
            }
        }
    }

    pub fn count_rejection(&mut self, destination: DestinationId, event: Option<EventSeq>) -> u32 {
        let Some(lane) = self.lanes.get_mut(&destination) else { return 0 };
        match event {
            Some(event) => {
                lane.rejected.insert(event);
            }
            None => lane.rejected.clear(),
        }
        lane.rejected.len() as u32
    }
}
