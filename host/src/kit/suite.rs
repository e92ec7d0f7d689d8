//! All cases of one component, in order, each told as it ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::case::{self, Event, Step};
use super::report::{Report, Tested, Verdict};
use super::rig::{Instances, Rig, Setup};
use super::{expect, general};
use crate::clock::SharedClock;
use crate::plugin::{Deliver, Runtime};

pub const GENERAL: &str = "general";
pub const OWN: &str = "cases";

/// What to test, and with what.
pub struct Plan {
    pub component: PathBuf,
    /// The folder of the plugin's own cases; it may be missing.
    pub cases: PathBuf,
    /// Laid over the settings of the folder.
    pub settings: Map<String, Value>,
    /// Laid over the endpoints of the folder.
    pub net: BTreeMap<String, String>,
    /// Laid over the databases of the folder.
    pub sql: BTreeMap<String, String>,
}

struct Run<'a> {
    report: Report,
    clock: &'a SharedClock,
    on_test: &'a mut (dyn FnMut(&Tested) + Send),
}

impl Run<'_> {
    async fn test(
        &mut self,
        group: &'static str,
        name: impl Into<String>,
        run: impl Future<Output = Verdict>,
    ) -> bool {
        let began = self.clock.since_boot();
        let verdict = run.await;
        let took = self.clock.since_boot() - began;
        let passed = verdict == Verdict::Passed;
        let tested = Tested { group, name: name.into(), verdict, took };
        (self.on_test)(&tested);
        self.report.tests.push(tested);
        passed
    }

    async fn verdict(&mut self, name: &str, verdict: Verdict) -> bool {
        self.test(GENERAL, name, async { verdict }).await
    }
}

/// Runs everything. An error is one of the cases' folder or of this machine, not of the plugin.
pub async fn run(
    runtime: &Runtime,
    clock: &SharedClock,
    plan: &Plan,
    on_test: &mut (dyn FnMut(&Tested) + Send),
) -> anyhow::Result<Report> {
    let mut cases = case::read(&plan.cases).map_err(anyhow::Error::msg)?;
    cases.common.settings.extend(plan.settings.clone());
    cases.common.net.extend(plan.net.clone());
    cases.common.sql.extend(plan.sql.clone());
    let rig = Rig::new(runtime.clone(), plan.component.clone(), cases.common).await?;
    let report = Report { component: plan.component.display().to_string(), ..Report::default() };
    let mut run = Run { report, clock, on_test };
    if !loads(&mut run, &rig).await {
        return Ok(run.report);
    }
    run.test(GENERAL, general::SETTINGS, general::unknown_setting(&rig)).await;
    let reach = reach(&mut run, &rig).await;
    for odd in &general::ODD {
        run.test(GENERAL, format!("{} is delivered, or rejected for good", odd.name), async {
            both(async |instances| general::odd(&rig, odd, instances).await).await
        })
        .await;
    }
    run.test(GENERAL, general::STEADY, async { judged(general::steady(&rig).await) }).await;
    run.test(GENERAL, general::BATCH, in_batches(&rig)).await;
    over_http(&mut run, &rig, &reach).await;
    for case in &cases.own {
        run.test(OWN, &case.name, expect::run(&rig, case)).await;
    }
    Ok(run.report)
}

async fn loads(run: &mut Run<'_>, rig: &Rig) -> bool {
    let loaded = rig.load(&Setup::new(Instances::Warm)).await;
    let verdict = match &loaded {
        Ok(lane) => {
            run.report.digest = lane.plugin.component_digest().to_owned();
            Verdict::Passed
        }
        Err(error) => Verdict::Failed(format!(
            "{}\nits settings for tests come from cases/settings.toml, or from --settings",
            error.problem
        )),
    };
    run.verdict("it loads and takes its settings", verdict).await
}

/// Whether the cases of HTTP say something about this plugin, and if not, why.
async fn reach(run: &mut Run<'_>, rig: &Rig) -> Result<(), String> {
    if !rig.names_server() {
        return Err("no setting holds {{server}}, so it sends nothing to the scripted server".to_owned());
    }
    let lane = match rig.load(&Setup::new(Instances::Warm)).await {
        Ok(lane) => lane,
        Err(error) => return Err(error.problem.to_string()),
    };
    rig.server.play(&[Step::status(200)]);
    let (outcome, requests) = lane.send(&Event::default()).await;
    let reached = !requests.is_empty() && outcome.is_success();
    let verdict = match reached {
        true => Verdict::Passed,
        false => Verdict::Failed(format!(
            "a setting holds {{{{server}}}}, and the server got {} requests\ngot {}",
            requests.len(),
            super::rig::told(&outcome)
        )),
    };
    run.verdict("an ordinary event reaches the server", verdict).await;
    if reached { Ok(()) } else { Err("an ordinary event does not reach the server".to_owned()) }
}

async fn over_http(run: &mut Run<'_>, rig: &Rig, reach: &Result<(), String>) {
    let skipped = |why: &String| Verdict::NotApplicable(why.clone());
    for answer in &general::ANSWERS {
        let verdict = async {
            match reach {
                Err(why) => skipped(why),
                Ok(()) => both(async |instances| general::answer(rig, answer, instances).await).await,
            }
        };
        run.test(GENERAL, answer.name, verdict).await;
    }
    macro_rules! of_state {
        ($name:ident, $case:ident) => {
            let verdict = async {
                match reach {
                    Err(why) => skipped(why),
                    Ok(()) => both(async |instances| general::$case(rig, instances).await).await,
                }
            };
            run.test(GENERAL, general::$name, verdict).await;
        };
    }
    of_state!(REPEATED, repeated);
    of_state!(MIXED, mixed);
    of_state!(AFTER_FAILURE, after_failure);
    of_state!(TOGETHER, together);
}

async fn in_batches(rig: &Rig) -> Verdict {
    match rig.load(&Setup::new(Instances::Warm)).await {
        Ok(lane) if lane.takes_batches() => {
            both(async |instances| general::batch(rig, instances).await).await
        }
        Ok(_) => Verdict::NotApplicable("it does not export batch".to_owned()),
        Err(error) => Verdict::Failed(error.problem.to_string()),
    }
}

/// On warm instances and on recycled ones.
async fn both(case: impl AsyncFn(Instances) -> Result<(), String>) -> Verdict {
    for instances in Instances::BOTH {
        if let Err(why) = case(instances).await {
            return Verdict::Failed(format!("{why}\n(instances {})", instances.as_str()));
        }
    }
    Verdict::Passed
}

fn judged(result: Result<(), String>) -> Verdict {
    result.map_or_else(Verdict::Failed, |()| Verdict::Passed)
}

/// Where a component's own cases are, if nothing else is said.
pub fn cases_beside(component: &Path) -> PathBuf {
    component.with_file_name("cases")
}
