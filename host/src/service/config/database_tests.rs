//! `[sql.NAME]`, and who is granted it.

use std::path::Path;

use super::file::{Isolation, SqlDatabase};
use super::{ConfigFile, SecretRef, UrlRef, digest, read_text};

const SMALL: &str = "version = 1\n[outbox]\nurl = \"sqlite:o.db\"\n[destination.stock]\ncomponent = \"s.wasm\"\n\
                     topics = [\"*\"]\nsql = [\"shop\"]\n";

fn read(lines: &str) -> ConfigFile {
    let text = format!("{SMALL}{lines}");
    read_text(&text, Path::new("/etc/outhaul")).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn problem(lines: &str) -> String {
    let problems = read_text(&format!("{SMALL}{lines}"), Path::new("/")).expect_err("it has a problem");
    assert_eq!(problems.len(), 1, "{problems:#?}");
    format!("{}: {}", problems[0].key, problems[0].text)
}

#[test]
fn a_granted_database_comes_with_its_destination_and_its_defaults() {
    let file = read("[sql.shop]\nurl = { file = \"url\" }\n[sql.other]\nurl = \"sqlite:other.db\"\n");
    let granted = &file.destination["stock"].databases;
    let [(name, SqlDatabase { url, pool, isolation })] = &granted.iter().collect::<Vec<_>>()[..] else {
        panic!("one is granted")
    };
    assert_eq!((name.as_str(), *pool, *isolation), ("shop", 10, Isolation::ReadCommitted));
    assert_eq!(*url, UrlRef::Secret(SecretRef::File("/etc/outhaul/url".into())));
    assert_eq!(file.sql["other"].url, UrlRef::Text("sqlite:/etc/outhaul/other.db".into()));
}

#[test]
fn a_grant_of_nothing_and_a_url_of_nothing_are_told_with_their_fix() {
    let near = problem("[sql.shops]\nurl = \"sqlite:s.db\"\n");
    assert!(near.starts_with("destination.stock.sql.0: there is no section [sql.shop]"), "{near}");
    assert!(near.contains("did you mean \"shops\"?") && near.contains("add it with  url ="), "{near}");
    for url in ["oracle://h/x", "shop.db", ""] {
        let wrong = problem(&format!("[sql.shop]\nurl = \"{url}\"\n"));
        assert!(wrong.starts_with("sql.shop.url: ") && wrong.contains("mysql://"), "{wrong}");
    }
    let name = problem("[sql.shop]\nurl = \"sqlite:s.db\"\n[sql.\"a b\"]\nurl = \"sqlite:s.db\"\n");
    assert!(name.starts_with("sql.a b: a database is named by"), "{name}");
    let pool = problem("[sql.shop]\nurl = \"sqlite:s.db\"\npool = 0\n");
    assert!(pool.ends_with("0 is out of range: it may be 1 to 10000"), "{pool}");
}

#[test]
fn a_changed_section_is_another_destination_and_another_sections_change_is_not() {
    let of = |shop: &str, other: &str| {
        let file = read(&format!("[sql.shop]\nurl = \"{shop}\"\n[sql.other]\nurl = \"{other}\"\n"));
        (digest::of_destination(&file.destination["stock"]), digest::of_routes(&file))
    };
    let first = of("mysql://h/a", "sqlite:o.db");
    assert_eq!(of("mysql://h/a", "sqlite:p.db"), first);
    let changed = of("mysql://h/b", "sqlite:o.db");
    assert_ne!(changed.0, first.0);
    assert_eq!(changed.1, first.1);
}
