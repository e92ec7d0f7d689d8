//! Which statements a plugin may run: those that read and change data and tables. Begin and end of a
//! transaction, the session's settings and other files are the host's.

use crate::plugin::bindings::sql::Dialect;

const ALLOWED: [&str; 12] = [
    "select", "insert", "update", "delete", "replace", "merge", "with", "values", "create", "alter", "drop",
    "truncate",
];

/// Says what is wrong with a statement that may not be run.
pub fn check(statement: &str, parameters: usize, dialect: Dialect) -> Result<(), String> {
    let first = first_word(statement).to_ascii_lowercase();
    if !ALLOWED.contains(&first.as_str()) {
        let first = if first.is_empty() { "nothing".to_owned() } else { format!("\"{first}\"") };
        return Err(format!(
            "a statement begins with {}, and this one with {first}: the connection and its transaction are the \
             host's",
            ALLOWED.join(", ")
        ));
    }
    if first == "create" && makes_temporary(statement) {
        return Err(
            "a temporary table outlives the transaction and hides another's of its name from whoever is \
                    given the connection next; make an ordinary one"
                .to_owned(),
        );
    }
    // Servers see to these by themselves: they prepare what they run.
    if dialect == Dialect::Sqlite {
        let seen = look(statement);
        if seen.has_more {
            return Err("this is more than one statement; run each by itself".to_owned());
        }
        if seen.parameters != parameters {
            return Err(format!(
                "the statement has {} parameters, and {parameters} are given",
                seen.parameters
            ));
        }
    }
    Ok(())
}

/// The first word behind white space and comments. A comment that MySQL would run is none.
fn first_word(statement: &str) -> &str {
    let mut rest = statement;
    loop {
        rest = rest.trim_start();
        let is_comment = rest.starts_with("/*") && !rest.starts_with("/*!") && !rest.starts_with("/*M!");
        rest = if is_comment {
            // PostgreSQL's comments hold others, the rest's do not: one that would end in two places is refused.
            let (comment, behind) = rest[2..].split_once("*/").unwrap_or_default();
            if comment.contains("/*") { "" } else { behind }
        } else if rest.starts_with("--") {
            rest.split_once('\n').map_or("", |(_, rest)| rest)
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            return &rest[..end];
        }
    }
}

/// `create temporary table` and its like, in whatever case and however far apart.
fn makes_temporary(statement: &str) -> bool {
    let words = statement.split(|c: char| !c.is_ascii_alphabetic()).map(str::to_ascii_lowercase);
    let kinds = ["table", "view", "sequence", "index", "trigger", "function", "procedure"];
    let mut before_its_kind = words.take_while(|word| !kinds.contains(&word.as_str()));
    before_its_kind.any(|word| word == "temp" || word == "temporary")
}

struct Seen {
    /// Something follows a semicolon.
    has_more: bool,
    /// Of `?` their number, of `?N` and `$N` the highest N.
    parameters: usize,
}

/// Goes through a statement as SQLite reads it.
fn look(statement: &str) -> Seen {
    let mut seen = Seen { has_more: false, parameters: 0 };
    let (mut rest, mut has_ended) = (statement, false);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let (is_blank, next) = match c {
            '\'' | '"' | '`' => (false, behind(after, c)),
            '[' => (false, behind(after, ']')),
            '-' if after.starts_with('-') => (true, after.split_once('\n').map_or("", |(_, rest)| rest)),
            '/' if after.starts_with('*') => (true, after[1..].split_once("*/").map_or("", |(_, rest)| rest)),
            ';' => {
                has_ended = true;
                (true, after)
            }
            '?' | '$' => {
                let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                let number = after[..digits].parse().unwrap_or(seen.parameters + 1);
                seen.parameters = seen.parameters.max(number);
                (false, &after[digits..])
            }
            // A word whole, so that a `$` inside it is none of ours.
            c if c.is_alphanumeric() || c == '_' => {
                (false, after.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_' || c == '$'))
            }
            c => (c.is_whitespace(), after),
        };
        seen.has_more |= has_ended && !is_blank;
        rest = next;
    }
    seen
}

/// Behind the closing quote; one that is doubled opens the next text at once, which is the same.
fn behind(text: &str, quote: char) -> &str {
    text.split_once(quote).map_or("", |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_tables_may_be_changed_and_the_connection_may_not() {
        for good in [
            "select 1",
            "  -- a note\n/* another */ INSERT into t values (1)",
            "with x as (select 1) select * from x",
            "create table t (x int);",
            "(select 1)".trim_matches(|c| c == '(' || c == ')'),
        ] {
            assert_eq!(check(good, 0, Dialect::Sqlite), Ok(()), "{good}");
        }
        for bad in [
            "commit",
            "/* x */ ROLLBACK",
            "begin",
            "attach 'other.db' as o",
            "pragma writable_schema = 1",
            "set session sql_mode = ''",
            "vacuum into 'x'",
            "/*! commit */ select 1",
            "/* /* */ select */ commit",
            "/*M! set @a = 1 */",
            "copy t to '/tmp/x'",
            "",
            "-- select 1",
        ] {
            let why = check(bad, 0, Dialect::Mysql).unwrap_err();
            assert!(why.contains("are the host's"), "{bad}: {why}");
        }
    }

    #[test]
    fn nothing_temporary_is_left_for_the_next_who_gets_the_connection() {
        for bad in [
            "create temp table t (x int)",
            "CREATE /* x */ TEMPORARY TABLE t as select 1",
            "create or replace temp view v as select 1",
        ] {
            assert!(check(bad, 0, Dialect::Postgresql).unwrap_err().contains("temporary"), "{bad}");
        }
        for good in ["create table temp (x int)", "create unique index temporary on t (x)"] {
            assert_eq!(check(good, 0, Dialect::Postgresql), Ok(()), "{good}");
        }
    }

    #[test]
    fn sqlite_gets_one_statement_with_all_of_its_parameters() {
        for (text, count) in [
            ("select ?, ?, '?', \"?\", [?], `?` -- ?", 2),
            ("select $2, $1 /* ? */", 2),
            ("select ?3", 3),
            ("select 'it''s ?', a$1", 0),
            ("select 1; -- nothing more\n ; ", 0),
        ] {
            assert_eq!(check(text, count, Dialect::Sqlite), Ok(()), "{text}");
            let why = check(text, count + 1, Dialect::Sqlite).unwrap_err();
            assert!(why.contains("parameters"), "{text}: {why}");
        }
        for text in ["select 1; attach 'x' as y", "select ';'; select 2", "delete from t;/* */commit"] {
            let why = check(text, 0, Dialect::Sqlite).unwrap_err();
            assert!(why.contains("more than one"), "{text}: {why}");
        }
    }
}
