//! Each kind of thing that is not granted: a value inside the guest, never a trap; outside, one
//! count and one line that says what to write into the config.

use outhaul::plugin::spec::SocketsGrant;

use crate::lane::{Lane, spec};
use crate::log::{capture, records};
use crate::net::{finding, grant};

struct Case {
    capability: &'static str,
    misdeed: &'static str,
    parameters: &'static [(&'static str, &'static str)],
    /// Inside the guest.
    finding: &'static str,
    /// In the operator's log.
    fix: &'static str,
}

const CASES: &[Case] = &[
    Case {
        capability: "environment",
        misdeed: "read-env",
        parameters: &[],
        finding: "variables=0",
        fix: "settings",
    },
    Case {
        capability: "files",
        misdeed: "open-file",
        parameters: &[],
        finding: "directories=0",
        fix: "reveal",
    },
    Case {
        capability: "sockets",
        misdeed: "connect-tcp",
        parameters: &[("address", "127.0.0.1:80")],
        finding: "access-denied",
        fix: "allow = { tcp = [\"host:port\"] }",
    },
    Case {
        capability: "sockets",
        misdeed: "resolve-name",
        parameters: &[("name", "broker.test")],
        finding: "access-denied",
        fix: "tcp = [\"broker.test:PORT\"], resolve = true",
    },
    Case {
        capability: "http",
        misdeed: "http-get",
        parameters: &[("url", "http://hooks.test/x")],
        finding: "HttpRequestDenied",
        fix: "origin = \"http://hooks.test\"",
    },
    Case {
        capability: "secret",
        misdeed: "reveal",
        parameters: &[("secret", "a\nforged line")],
        finding: "Denied",
        fix: "use = [\"reveal\"]",
    },
];

#[tokio::test]
async fn each_kind_is_a_value_inside_and_one_count_and_one_line_outside() {
    drop(capture());
    for case in CASES {
        let lane = Lane::load(spec("hostile")).await;
        let destination = lane.destination.clone();
        for _ in 0..3 {
            let outcome = lane.call_with(case.misdeed, case.parameters).await;
            let told = format!("{outcome:?}");
            assert!(told.contains(case.finding) && !told.contains("Host("), "{}: {told}", case.misdeed);
        }
        let counts: Vec<_> = lane.plugin.denied().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(case.capability, 3)], "{}", case.misdeed);
        let lines: Vec<_> = records(&destination)
            .into_iter()
            .filter(|record| record["fields"]["capability"].is_string())
            .collect();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert_eq!(lines[0]["fields"]["capability"], case.capability);
        let fix = lines[0]["fields"]["fix"].as_str().unwrap();
        assert!(fix.contains(case.fix) && fix.contains(&destination), "{fix}");
        assert!(!fix.contains('\n'), "{fix}");
        assert_eq!(lane.stats().instances_created, 1, "{}: the instance lives", case.misdeed);
    }
}

#[tokio::test]
async fn endpoints_and_listening_are_told_in_the_same_way() {
    drop(capture());
    let mut spec = spec("connections");
    let destination = spec.destination.clone();
    spec.net.insert("broker".to_owned(), grant("127.0.0.1:1"));
    spec.sockets = Some(SocketsGrant { tcp: vec!["127.0.0.1:1".to_owned()], ..SocketsGrant::default() });
    let lane = Lane::load(spec).await;
    for _ in 0..2 {
        finding(&lane, "net.echo", &[("endpoint", "other")]).await;
        finding(&lane, "sockets.listen", &[]).await;
        finding(&lane, "sockets.udp", &[]).await;
    }
    assert_eq!((lane.denied("net"), lane.denied("sockets")), (2, 4));
    let asked: Vec<_> = records(&destination)
        .into_iter()
        .filter_map(|record| record["fields"]["asked"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(asked, ["other", "TcpListen", "a UDP socket"]);
}
