//! Instances replaced over and over.

use outhaul::plugin::{Deliver, Runtime};
use outhaul_tests::budget::from_env;

use crate::lane::{PROCESS, call, settings, spec};

/// Mappings and resident bytes of this process.
fn held() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident_pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    (maps, resident_pages * 4096)
}

#[tokio::test]
async fn s32_thousands_of_replaced_instances_leave_no_mapping_and_no_memory_behind() {
    let _alone = PROCESS.write().await;
    let runtime = Runtime::new(settings()).unwrap();
    let mut spec = spec("hostile");
    spec.limits.calls_per_instance = 1;
    let plugin = runtime.load(spec).await.unwrap_or_else(|error| panic!("{error}"));
    let replace = |times: u64| {
        let plugin = plugin.clone();
        async move {
            for n in 0..times {
                // Some die in good order, some by a trap.
                let expected = if n % 4 == 0 { "trap" } else { "ok" };
                let outcome = plugin.deliver(call(expected, &[])).await;
                assert_eq!(outcome.is_success(), expected == "ok", "{outcome:?}");
            }
        }
    };
    const WARM_UP: u64 = 500;
    let replacements = from_env("OUTHAUL_REPLACEMENTS").unwrap_or(2_000);
    replace(WARM_UP).await;
    let (maps_before, bytes_before) = held();
    replace(replacements).await;
    let (maps_after, bytes_after) = held();
    assert_eq!(plugin.stats().instances_created, WARM_UP + replacements);
    assert_eq!(plugin.stats().instances_dropped, WARM_UP + replacements);
    assert!(maps_after <= maps_before + 20, "mappings went from {maps_before} to {maps_after}");
    assert!(bytes_after <= bytes_before + (8 << 20), "memory went from {bytes_before} to {bytes_after}");
}

#[tokio::test]
async fn an_instance_serves_as_many_calls_as_it_may_and_is_then_replaced() {
    let lane = crate::lane::hostile(|spec| spec.limits.calls_per_instance = 3).await;
    let mut seen = Vec::new();
    for _ in 0..7 {
        seen.push(crate::lane::reference(&lane.call("remember").await).to_owned());
    }
    let expected = ["1", "2", "3", "1", "2", "3", "1"].map(|n| format!("calls={n}"));
    assert_eq!(seen, expected);
}
