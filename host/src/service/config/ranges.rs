//! What each duration, size and count of the config may be: one table. A value outside its range is
//! refused with the range, because it would stop every delivery, or never end one.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::file::*;
use super::locate::Located;
use super::units::{Bytes, Span};

/// The databases remember no more than so many distinct rejected events of a lane.
const REJECTIONS_MAX: u32 = 1_000;

const DAY_SECS: u64 = 86_400;

/// Of a wait for a destination: longer is a delivery that nobody will look for any more.
const WAITS: RangeInclusive<Span> = ms(1)..=days(30);
/// Of a part of a call, or all of it.
const CALLS: RangeInclusive<Span> = ms(1)..=days(1);
const LEASES: RangeInclusive<Span> = ms(100)..=days(1);
const MARGINS: RangeInclusive<Span> = ms(1)..=Span::secs(3_600);
/// Of things that this process does or holds at once.
const COUNTS: RangeInclusive<u32> = 1..=10_000;

const fn ms(ms: u64) -> Span {
    Span(Duration::from_millis(ms))
}

const fn days(days: u64) -> Span {
    Span::secs(days * DAY_SECS)
}

const fn kib(kib: u64) -> Bytes {
    Bytes(kib << 10)
}

pub fn check(file: &ConfigFile, located: &mut Located<'_>) {
    let ConfigFile { outbox, relay, runtime, .. } = file;
    let mut keys = Ranged { located, section: vec!["outbox"] };
    keys.check("pool", outbox.pool, COUNTS);
    keys.check("timeout", outbox.timeout, ms(10)..=Span::secs(300));
    keys.check("poll", outbox.poll, ms(10)..=Span::secs(3_600));

    keys.section = vec!["relay"];
    keys.check("lease", relay.lease, LEASES);
    keys.check("batch", relay.batch, COUNTS);
    keys.check("margin", relay.margin, MARGINS);
    keys.check("drain", relay.drain, ms(0)..=days(1));
    keys.check("payload_memory", relay.payload_memory, kib(1)..=kib(1 << 30));

    keys.section = vec!["runtime"];
    keys.check("threads", runtime.threads, 0..=1_024);

    for (name, destination) in &file.destination {
        keys.section = vec!["destination", name];
        lane(&mut keys, destination);
        keys.section = vec!["destination", name, "retry"];
        retry(&mut keys, &destination.retry);
        keys.section = vec!["destination", name, "limits"];
        limits(&mut keys, &destination.limits);
        keys.section = vec!["destination", name, "limits", "http"];
        http(&mut keys, &destination.limits.http);
        keys.section = vec!["destination", name, "limits", "net"];
        net(&mut keys, &destination.limits.net);
        keys.section = vec!["destination", name, "limits", "sql"];
        sql(&mut keys, &destination.limits.sql);
    }
    for (name, database) in &file.sql {
        keys.section = vec!["sql", name];
        keys.check("pool", database.pool, COUNTS);
    }
}

fn lane(keys: &mut Ranged<'_, '_>, destination: &Destination) {
    keys.check("concurrency", destination.concurrency, COUNTS);
    keys.check("stop_after_rejections", destination.stop_after_rejections, 0..=REJECTIONS_MAX);
    if let Some(lease) = destination.lease {
        keys.check("lease", lease, LEASES);
    }
    if let Some(batch) = destination.batch {
        keys.check("batch", batch, COUNTS);
    }
    if let Some(margin) = destination.margin {
        keys.check("margin", margin, MARGINS);
    }
}

fn retry(keys: &mut Ranged<'_, '_>, retry: &Retry) {
    keys.check("max_attempts", retry.max_attempts, 1..=1_000_000);
    keys.check("base", retry.base, WAITS);
    keys.check("cap", retry.cap, WAITS);
    keys.check("after_cap", retry.after_cap, WAITS);
    keys.check("max_age", retry.max_age, Span::secs(1)..=days(3_650));
}

fn limits(keys: &mut Ranged<'_, '_>, limits: &Limits) {
    keys.check("memory", limits.memory, kib(64)..=kib(4 << 20));
    keys.check("call", limits.call, CALLS);
    keys.check("payload", limits.payload, Bytes(1)..=kib(1 << 20));
    keys.check("calls_per_instance", limits.calls_per_instance, 1..=1_000_000_000);
    keys.check("tables", limits.tables, 1..=10_000_000);
    keys.check("handles", limits.handles, 1..=1_000_000);
    keys.check("log_line", limits.log_line, Bytes(16)..=kib(1 << 10));
    keys.check("log_lines_per_second", limits.log_lines_per_second, 0..=100_000);
    keys.check("text", limits.text, Bytes(16)..=kib(64));
    keys.check("reference", limits.reference, Bytes(16)..=kib(64));
    keys.check("batch_events", limits.batch_events, COUNTS);
    keys.check("batch_bytes", limits.batch_bytes, Bytes(1)..=kib(1 << 20));
}

fn http(keys: &mut Ranged<'_, '_>, http: &HttpLimits) {
    keys.check("connect", http.connect, CALLS);
    keys.check("tls", http.tls, CALLS);
    keys.check("first_byte", http.first_byte, CALLS);
    keys.check("total", http.total, CALLS);
    keys.check("response_body", http.response_body, Bytes(0)..=kib(1 << 20));
    keys.check("header_bytes", http.header_bytes, kib(1)..=kib(1 << 10));
    keys.check("headers", http.headers, COUNTS);
    keys.check("connections", http.connections, COUNTS);
    keys.check("idle", http.idle, CALLS);
}

fn net(keys: &mut Ranged<'_, '_>, net: &NetLimits) {
    keys.check("connect", net.connect, CALLS);
    keys.check("tls", net.tls, CALLS);
    keys.check("connections", net.connections, COUNTS);
}

fn sql(keys: &mut Ranged<'_, '_>, sql: &SqlLimits) {
    keys.check("connect", sql.connect, CALLS);
    keys.check("statement", sql.statement, CALLS);
    keys.check("transaction", sql.transaction, CALLS);
    keys.check("transactions", sql.transactions, COUNTS);
    keys.check("rows", sql.rows, 1..=1_000_000);
    keys.check("result", sql.result, Bytes(16)..=kib(32 << 10));
}

/// The keys of one section.
struct Ranged<'f, 't> {
    located: &'f mut Located<'t>,
    section: Vec<&'f str>,
}

impl Ranged<'_, '_> {
    fn check<T: PartialOrd + Display>(&mut self, key: &str, value: T, allowed: RangeInclusive<T>) {
        if !allowed.contains(&value) {
            let text = format!("{value} is out of range: it may be {} to {}", allowed.start(), allowed.end());
            self.located.refuse(&[&self.section[..], &[key]].concat(), text);
        }
    }
}
