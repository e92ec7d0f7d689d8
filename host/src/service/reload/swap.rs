//! The swap: the database is told first, then each lane gets its new generation at once, and what
//! was replaced finishes its calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;

use super::candidates::Next;
use super::{Digests, Failure, Reloader, Why};
use crate::domain::DestinationId;
use crate::plugin::LoadedPlugin;
use crate::relay::{Lane, LaneSettings};
use crate::service::config::Config;
use crate::service::inventory::{Inventory, Target};
use crate::service::mapping;
use crate::store::{ConfigStanding, Registered, StoreError, Takeover};

/// What a reload did, for its one line in the log.
#[derive(Default)]
struct Done {
    swapped: usize,
    added: usize,
    removed: usize,
    adjusted: usize,
    /// The database was told.
    registered: bool,
    /// As [`Next::refused_anew`].
    refused_anew: bool,
}

/// What the database was told before the swap.
pub(super) struct Registration {
    ids_before: BTreeMap<String, DestinationId>,
    is_news: bool,
}

impl Reloader {
    /// Tells the database of destinations and routes, if there is news.
    pub(super) async fn register(&mut self, next: &Next) -> Result<Registration, Failure> {
        let ids_before = self.ids.clone();
        let digests = Digests::of(&next.config, next.whole.clone());
        if digests == self.registered && self.has_every_id(&next.config) {
            return Ok(Registration { ids_before, is_news: false });
        }
        let takeover = self.takeover(&digests);
        if takeover != Takeover::Never {
            refuse_beside_a_rename(next)?;
        }
        let registration = mapping::registration(&next.config, &self.host_id, takeover);
        let registered = match self.running.stores.store.register(&registration).await {
            Ok(registered) => registered,
            Err(StoreError::Unavailable(why)) => return Err(Failure::Unavailable(why)),
            Err(error) => return Err(Failure::Refused(error.to_string())),
        };
        if registered.standing == ConfigStanding::Superseded {
            tell_superseded(&registered, digests.routes == digests.whole);
        }
        self.registered = digests;
        self.note_ids(&registered);
        Ok(Registration { ids_before, is_news: true })
    }

    /// Only a change is a reason to take over: a host that is told to reload the same old config
    /// must not take the routes back from a newer one, nor one that could not apply the whole change
    /// from one that could.
    fn takeover(&self, next: &Digests) -> Takeover {
        let is_whole = next.routes == next.whole;
        if next.routes == self.registered.routes && (!is_whole || next.whole == self.registered.whole) {
            Takeover::Never
        } else if is_whole {
            Takeover::UnlessCurrent
        } else {
            Takeover::UnlessCurrentOr(next.whole.clone())
        }
    }

    pub(super) async fn swap(&mut self, next: Next, why: Why, registration: Registration) {
        let inventory = self.running.inventory.get();
        let Next { config, targets, refused_anew, .. } = next;
        let Registration { ids_before, is_news } = registration;
        let mut done = Done { registered: is_news, refused_anew, ..Done::default() };
        let mut replaced = Vec::new();
        for target in &targets {
            let Some(id) = self.ids.get(&target.name).copied() else { continue };
            let old_name = ids_before.iter().find(|(_, known)| **known == id).map(|(name, _)| name.as_str());
            let previous = old_name.and_then(|name| inventory.target(name));
            let settings = settings_of(&config, &target.name);
            let is_same = previous.is_some_and(|previous| Arc::ptr_eq(&previous.plugin, &target.plugin));
            let had = old_name.map(|name| settings_of(&self.config, name));
            if is_same && had.as_ref() == Some(&settings) {
                continue;
            }
            self.running.relay.put_lane(Lane { id, settings, plugin: target.plugin.clone() });
            match previous {
                None => done.added += 1,
                Some(_) if is_same => done.adjusted += 1,
                Some(_) => done.swapped += 1,
            }
            if !is_same && target.loaded.is_some() {
                replaced.push((id, target.clone(), previous.map(|previous| previous.name.clone())));
            }
        }
        for (name, id) in &ids_before {
            if !self.ids.values().any(|kept| kept == id) {
                self.running.relay.remove_lane(*id);
                tracing::info!(destination = name, "the destination was removed; its rows are kept");
                done.removed += 1;
            }
        }
        self.config = config;
        self.running.inventory.set(Inventory { targets, reload_error: None });
        // Who reads of it here finds it wherever else they look.
        replaced.iter().for_each(|(_, target, old_name)| tell(target, old_name.as_deref()));
        self.retire_replaced(&inventory);
        self.revive(replaced.iter().map(|(id, ..)| *id).collect()).await;
        done.tell(why, self.refused.len());
    }

    /// What ran before and runs no more.
    fn retire_replaced(&self, before: &Inventory) {
        let now = self.running.inventory.get();
        for old in &before.targets {
            let stays = |loaded: &Arc<LoadedPlugin>| {
                now.targets.iter().flat_map(Target::all_loaded).any(|now| Arc::ptr_eq(now, loaded))
            };
            let ended: Vec<_> = old.all_loaded().filter(|loaded| !stays(loaded)).cloned().collect();
            if !ended.is_empty() {
                tokio::spawn(retire(ended, old.name.clone(), old.generation));
            }
        }
    }

    /// Lanes that the old generation stopped are tried with the new one.
    async fn revive(&self, replaced: Vec<DestinationId>) {
        let revivals = replaced.iter().map(|id| self.running.relay.revive_lane(*id));
        for (id, revived) in replaced.iter().zip(join_all(revivals).await) {
            let name = self.ids.iter().find(|(_, known)| *known == id).map_or("", |(name, _)| name.as_str());
            match revived {
                Ok(true) => tracing::info!(destination = name, "the stopped lane is active again"),
                Ok(false) => {}
                Err(error) => tracing::warn!(
                    destination = name,
                    %error,
                    "whether the lane is stopped is not known; if it is, run  outhaul lanes resume"
                ),
            }
        }
    }
}

/// To the database the old name would be a destination of its own once another host has applied the
/// rename, and that host's would count as removed. So no other change of routes is applied either.
fn refuse_beside_a_rename(next: &Next) -> Result<(), Failure> {
    let Some((old, new, why)) = next.refused_renames.first() else { return Ok(()) };
    Err(Failure::Refused(format!(
        "[destination.{new}], renamed from {old}, can't be used: {why}; until it can, or the rename is taken \
         back, no change of topics, order or names in this file is applied on this host"
    )))
}

fn tell_superseded(registered: &Registered, is_whole: bool) {
    let generation = registered.generation;
    let unknown = registered.destinations.iter().filter(|(_, id)| id.is_none());
    let unknown: Vec<_> = unknown.map(|(name, _)| name.as_str()).collect();
    let not_in_it = unknown.join(", ");
    if is_whole {
        tracing::warn!(
            generation,
            not_in_it,
            "another host applied a newer config: this one writes no routes, and delivers nothing of \
             destinations that are not in it; run  outhaul config apply  to make this config the current one"
        );
    } else {
        tracing::warn!(
            generation,
            not_in_it,
            "another host's config is the current one: this one writes no routes while a refused candidate \
             keeps it from applying the whole file"
        );
    }
}

fn settings_of(config: &Config, name: &str) -> LaneSettings {
    mapping::lane_settings(&config.file, name, &config.file.destination[name])
}

fn tell(target: &Target, old_name: Option<&str>) {
    let renamed_from = old_name.filter(|name| *name != target.name);
    tracing::info!(
        destination = target.name,
        renamed_from,
        generation = target.generation,
        digest = target.plugin.component_digest(),
        "the destination has a new generation"
    );
}

async fn retire(ended: Vec<Arc<LoadedPlugin>>, destination: String, generation: u64) {
    join_all(ended.iter().map(|loaded| loaded.retire())).await;
    tracing::info!(destination, generation, "the replaced generation has ended its calls");
}

impl Done {
    fn tell(&self, why: Why, refused: usize) {
        let Self { swapped, added, removed, adjusted, registered, refused_anew } = *self;
        if swapped + added + removed + adjusted > 0 || registered || refused_anew {
            tracing::info!(swapped, added, removed, adjusted, refused, "reloaded");
        } else if why == Why::Hangup {
            tracing::info!(refused, "nothing to reload: what is on disk is what runs");
        }
    }
}
