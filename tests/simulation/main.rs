//! The real relay over the model store and scripted plugins, on a virtual clock.
//!
//! `leases`, `lanes`, `lanes_apart`, `probes`, `payloads`, `batches`, `swaps` and `endings` tell one story
//! each; `crashes` cuts a short life at each of its steps; `random` lets one seed make hosts, faults, time
//! and order, and checks the guarantees at each step. Replay a seed with `OUTHAUL_SIM_SEED=…`.

mod batches;
mod chance;
mod checks;
mod crashes;
mod endings;
mod host;
mod lanes;
mod lanes_apart;
mod leases;
mod payloads;
mod plugin;
mod probes;
mod random;
mod swaps;
mod weather;
mod world;
