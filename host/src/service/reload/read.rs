//! The config on disk: read, checked as at a start, and cut to what can be applied now.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{Failure, Reloader, fingerprint, sections};
use crate::service::config::{Config, SecretRef};
use crate::service::host;

impl Reloader {
    /// What is to run, if every candidate is good.
    pub(super) async fn read(&mut self) -> Result<Config, Failure> {
        let path = self.config.path.clone();
        let read = tokio::task::spawn_blocking(move || Config::load(&path)).await;
        let read = read.map_err(|error| Failure::Refused(error.to_string()))?;
        let found = read.map_err(|problems| Failure::Refused(problems.to_string()))?;
        // Also of candidates that will be refused, so that a mended one is seen.
        self.files = files_of(&found);
        self.files.extend(files_of(&self.config));
        check_leases(&found)?;
        let (config, later) = sections::applicable(found, &self.config);
        self.tell_later(later.clone());
        check_leases(&config).map_err(|failure| match failure {
            Failure::Refused(why) if !later.is_empty() => {
                let keys = later.join(", ");
                Failure::Refused(format!("{why} (a change of {keys} only takes effect at the next start)"))
            }
            failure => failure,
        })?;
        let reread = self.token.reread(&config.file.server);
        reread.map_err(|error| Failure::Refused(error.to_string()))?;
        Ok(config)
    }

    fn tell_later(&mut self, later: Vec<String>) {
        if !later.is_empty() && later != self.told_later {
            tracing::warn!(keys = later.join(", "), "changed keys that take effect at the next start");
        }
        self.told_later = later;
    }
}

/// The config's own file and whatever its destinations are made of.
pub(super) fn files_of(config: &Config) -> BTreeSet<PathBuf> {
    let of_destinations = config.file.destination.values().flat_map(fingerprint::files);
    let token = match &config.file.server.token {
        Some(SecretRef::File(path)) => Some(path.clone()),
        Some(SecretRef::Env(_)) | None => None,
    };
    of_destinations.chain(token).chain([config.path.clone()]).collect()
}

/// S5: a lease that can't be kept is refused with the numbers.
pub(super) fn check_leases(config: &Config) -> Result<(), Failure> {
    host::check_leases(config).map_err(|error| Failure::Refused(error.to_string()))
}
