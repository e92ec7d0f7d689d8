//! The plugin of a lane replaced while it works.

use std::sync::Arc;
use std::time::Duration;

use outhaul::domain::{HostFailure, Outcome};
use outhaul::store::{DeliveryStatus, LaneState, Operate, Store as _};
use tokio::sync::Semaphore;

use crate::host::{Host, lane_with};
use crate::plugin::{Act, Takes, detail, script};
use crate::world::{SimLane, World, simulate};

#[test]
fn fifty_swaps_under_load_repeat_no_delivery_and_lose_none() {
    simulate(async {
        let world = World::new(3, vec![SimLane::new("a", script(|_| Act::deliver(40)))]).await;
        let host = Host::start(&world, "one").await;
        let mut ids = Vec::new();
        for swap in 0..50 {
            ids.extend(world.emit(0, 10).await);
            tokio::time::sleep(Duration::from_millis(7)).await;
            host.relay.put_lane(lane_with(&world, "one", 0, script(move |_| Act::deliver(20 + swap))));
        }
        world.until_finished(&ids).await;
        assert_eq!(ids.len(), 500);
        world.assert_delivered(&ids, 1);
    });
}

#[test]
fn what_a_replaced_plugin_still_says_of_its_lane_stops_nothing() {
    let misconfigured = Outcome::Misconfigured(detail("401"));
    let refused = Outcome::Host(HostFailure::Configure, detail("bad url"));
    for late in [misconfigured, refused] {
        simulate(async move {
            let permits = Arc::new(Semaphore::new(0));
            let takes = Takes::Permit(permits.clone());
            let act = Act { takes, ..Act::fail(late) };
            let world = World::new(3, vec![SimLane::new("a", script(move |_| act.clone()))]).await;
            let ids = world.emit(0, 20).await;
            let host = Host::start(&world, "one").await;
            world.until_running(&ids, 8).await;
            host.relay.put_lane(lane_with(&world, "one", 0, script(|_| Act::deliver(1))));
            permits.add_permits(8);
            world.until_finished(&ids).await;
            assert_eq!(world.count(DeliveryStatus::Delivered), 20);
            let lane = &host.relay.status().lanes[0];
            assert_eq!((lane.view.as_ref().unwrap().state, &lane.problem), (LaneState::Active, &None));
            assert!(ids.iter().all(|id| world.row(*id).attempts == 1), "a deferral costs no attempt");
            world.watch.assert_kept();
        });
    }
}

#[test]
fn what_a_replaced_plugin_still_rejects_does_not_count_against_its_lane() {
    simulate(async {
        let permits = Arc::new(Semaphore::new(0));
        let takes = Takes::Permit(permits.clone());
        let rejects = Act { takes, ..Act::fail(Outcome::Rejected(detail("422"))) };
        let lane = SimLane::new("a", script(move |_| rejects.clone()));
        let world = World::new(3, vec![lane.with(|lane| lane.stop_after_rejections = 3)]).await;
        let ids = world.emit(0, 20).await;
        let host = Host::start(&world, "one").await;
        world.until_running(&ids, 8).await;
        host.relay.put_lane(lane_with(&world, "one", 0, script(|_| Act::deliver(1))));
        permits.add_permits(8);
        world.until_finished(&ids).await;
        assert_eq!((world.count(DeliveryStatus::Delivered), world.count(DeliveryStatus::Dead)), (12, 8));
        assert_eq!(host.relay.status().lanes[0].view.as_ref().unwrap().state, LaneState::Active);
        world.watch.assert_kept();
    });
}

#[test]
fn a_lane_that_stopped_for_all_is_revived_with_its_new_plugin_and_one_that_is_paused_by_hand_is_not() {
    simulate(async {
        let stops = script(|_| Act::fail(Outcome::Gone(detail("410"))));
        let world = World::new(3, vec![SimLane::new("a", stops)]).await;
        let ids = world.emit(0, 10).await;
        let host = Host::start(&world, "one").await;
        let id = world.lane_id(0);
        let is_stopped =
            || host.relay.status().lanes[0].view.as_ref().is_some_and(|v| v.state == LaneState::Stopped);
        world.watch.until("the lane stops", is_stopped).await;
        host.relay.put_lane(lane_with(&world, "one", 0, script(|_| Act::deliver(1))));
        assert!(host.relay.revive_lane(id).await.unwrap());
        world.until_finished(&ids).await;
        assert_eq!(world.count(DeliveryStatus::Delivered), 10);

        world.model.pause("a", "a look", "someone").await.unwrap();
        assert!(!host.relay.revive_lane(id).await.unwrap());
        assert_eq!(world.model.lanes(&[id]).await.unwrap()[0].state, LaneState::Paused);
        world.watch.assert_kept();
    });
}
