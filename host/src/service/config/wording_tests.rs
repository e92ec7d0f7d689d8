//! What a person is told of a config that can't be used.

use std::path::Path;

use super::tests::{SMALL, only_problem};
use super::*;

#[test]
fn a_value_of_another_kind_is_told_what_to_write_and_no_type_of_the_program() {
    for (line, key, expected) in [
        (
            "canary = \"next.wasm\"",
            "canary",
            "a table, as in  canary = { component = \"…\", share = \"5%\" }",
        ),
        ("signature = \"x\"", "signature", "a table, as in  signature = { file = \"…\", key = \"…\" }"),
        ("limits = { http = 5 }", "limits.http", "a table, as in  http = { "),
        ("concurrency = \"4\"", "concurrency", "a whole number from 0 to 4294967295"),
        ("concurrency = -1", "concurrency", "a whole number from 0 to 4294967295"),
        ("required = \"yes\"", "required", "true or false"),
        ("sql = \"stock\"", "sql", "a list, as in  [ … ]"),
        ("order = \"keys\"", "order", "`none` or `key`"),
    ] {
        let problem = only_problem(&format!("{SMALL}{line}\n"));
        assert!(problem.starts_with(&format!("8 destination.hook.{key}: ")), "{line}: {problem}");
        assert!(problem.contains(expected), "{line}: {problem}");
        assert!(!problem.contains("struct") && !problem.contains("u32"), "{line}: {problem}");
    }
    let section = only_problem("version = 1\noutbox = \"sqlite:outhaul.db\"\n");
    assert!(section.contains("2 outbox: ") && section.contains("outbox = { url = "), "{section}");
}

#[test]
fn where_a_file_is_no_toml_is_told_by_line_and_column() {
    let problem = only_problem("version = 1\n[outbox]\nurl = = \"x\"\n");
    assert!(problem.starts_with("3 : this is not TOML (column 7): "), "{problem}");
}

#[test]
fn a_config_without_an_end_is_refused_and_read_no_further_than_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outhaul.toml");
    let found = Config::load(Path::new("/dev/zero")).expect_err("it has no end").to_string();
    assert!(found.contains("it has more than 16 MiB"), "{found}");
    std::fs::write(&path, format!("{SMALL}#{}", "x".repeat(CONFIG_BYTES_MAX as usize))).unwrap();
    let found = Config::load(&path).expect_err("it is too large").to_string();
    assert!(found.contains("outhaul.toml") && found.contains("more than 16 MiB"), "{found}");
}

#[test]
fn the_database_of_a_config_that_is_wrong_elsewhere_can_still_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outhaul.toml");
    std::fs::write(&path, format!("{SMALL}nonsense = 1\n")).unwrap();
    assert!(Config::load(&path).is_err());
    let url = Config::outbox_alone(&path).expect("its [outbox] is right").database_url().unwrap();
    assert_eq!(url, format!("sqlite:{}", folder.path().join("outhaul.db").display()));
    std::fs::write(&path, "version = 1\n[outbox").unwrap();
    assert!(Config::outbox_alone(&path).is_none());
}
