//! Payloads: who waits for memory, and what becomes of one that can't be read.

use outhaul::store::DeliveryStatus;

use crate::host::Host;
use crate::plugin::{Act, script};
use crate::world::{SimLane, World, simulate};

#[test]
fn a_large_payload_that_waits_for_memory_is_not_overtaken_for_ever_by_its_lanes_small_ones() {
    simulate(async {
        // Eight small ones hold memory, each for another time, so that some are always held.
        let busy =
            SimLane::new("a", script(|call| Act::deliver(5 + u64::try_from(call.event.seq.0 % 7).unwrap())));
        let world = World::new(1, vec![busy]).await;
        let mut events: Vec<_> = (0..401).map(|_| world.event(0)).collect();
        events[4].payload = vec![0; 1_000];
        let seqs = world.insert(&events).await;
        let ids: Vec<_> = seqs.iter().map(|seq| (world.lane_id(0), *seq)).collect();
        let _host = Host::start_with(&world, "one", |settings| settings.payload_budget_bytes = 1_000).await;
        world.until_finished(&ids[4..5]).await;
        // Those that held memory before it, and no more than could be claimed beside it.
        let before = world.count(DeliveryStatus::Delivered) - 1;
        assert!(before <= 16, "{before} others went first");
        world.until_finished(&ids).await;
        world.assert_delivered(&ids, 1);
    });
}
