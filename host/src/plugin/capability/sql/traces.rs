//! Whether a statement could leave something on a session of MySQL or MariaDB, which nothing short of its end
//! clears: a lock by name, a user variable, what a stored function sets or makes. Everything that is not known
//! to leave nothing may; then the connection is not used again.

/// Functions that leave nothing, and words that stand before a parenthesis without being one's name.
const HARMLESS: &str = "abs all and any as avg between binary by case cast ceil ceiling char char_length coalesce concat \
    concat_ws convert count crc32 curdate current_date current_timestamp date date_add date_format \
    date_sub datediff datetime day decimal distinct div else except exists extract field find_in_set floor \
    from from_unixtime greatest group_concat having hex if ifnull in instr intersect interval isnull join \
    json_array json_contains json_extract json_object json_set json_unquote json_value least left length \
    like limit locate lower lpad ltrim max md5 min mod month not now nullif octet_length on or over \
    replace returning right round rpad rtrim select set sha2 some substring sum then trim union \
    unix_timestamp upper using values when where";

#[derive(Clone, Copy, PartialEq)]
enum Token<'s> {
    Word(&'s str),
    /// A text or a name: which of them, the server's settings say.
    Quoted,
    Dot,
    Open,
    Other,
}

pub fn leaves_none(statement: &str) -> bool {
    // A backslash may move the end of a text, and comments of these kinds are run.
    if statement.contains(['@', '\\']) || statement.contains("/*!") || statement.contains("/*M!") {
        return false;
    }
    let tokens = tokens(statement);
    tokens.iter().enumerate().all(|(index, token)| *token != Token::Open || is_harmless(&tokens[..index]))
}

/// Whether what stands before a parenthesis calls nothing that is not known.
fn is_harmless(before: &[Token<'_>]) -> bool {
    let is_name = |token: &Token<'_>| matches!(token, Token::Word(_) | Token::Quoted);
    let Some(last) = before.last().filter(|last| is_name(last)) else { return true };
    let mut start = before.len() - 1;
    while start >= 2 && before[start - 1] == Token::Dot && is_name(&before[start - 2]) {
        start -= 2;
    }
    let is_qualified = start + 1 < before.len();
    let is_table =
        start > 0 && matches!(before[start - 1], Token::Word(word) if word.eq_ignore_ascii_case("into"));
    let is_known = |word: &str| HARMLESS.split(' ').any(|known| word.eq_ignore_ascii_case(known));
    is_table || (!is_qualified && matches!(last, Token::Word(word) if is_known(word)))
}

fn tokens(statement: &str) -> Vec<Token<'_>> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let (mut tokens, mut rest) = (Vec::new(), statement);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let is_line_comment = c == '#' || (c == '-' && after.strip_prefix('-').is_some_and(begins_blank));
        let (token, next) = match c {
            '\'' | '"' | '`' => (Some(Token::Quoted), after.split_once(c).map_or("", |(_, rest)| rest)),
            _ if is_line_comment => (None, after.split_once('\n').map_or("", |(_, rest)| rest)),
            '/' if after.starts_with('*') => (None, after[1..].split_once("*/").map_or("", |(_, rest)| rest)),
            '.' => (Some(Token::Dot), after),
            '(' => (Some(Token::Open), after),
            c if is_of_word(c) => {
                let behind = rest.trim_start_matches(is_of_word);
                (Some(Token::Word(&rest[..rest.len() - behind.len()])), behind)
            }
            c => (Some(Token::Other).filter(|_| !c.is_whitespace()), after),
        };
        tokens.extend(token);
        rest = next;
    }
    tokens
}

/// As MySQL wants it of what follows two hyphens.
fn begins_blank(text: &str) -> bool {
    text.chars().next().is_none_or(|c| c.is_ascii_whitespace() || c.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ledgers_run_leaves_nothing() {
        for statement in [
            "insert into `shop`.`ledger` (`dedup_id`, `at`) values (?, ?)",
            "insert into t (a) select coalesce(max(a), 0) + 1 from t where b in (1, 2) -- get_lock('a', 1)\n",
            "update stock set quantity = quantity + ? where sku = ? and quantity >= ?",
            "select sku /* f(1) */, 'get_lock(1)' from stock where (a = 1 or b = 2) for update",
            "REPLACE INTO t (a) VALUES (NOW())",
        ] {
            assert!(leaves_none(statement), "{statement}");
        }
    }

    #[test]
    fn whatever_is_not_known_may_leave_something() {
        for statement in [
            "select get_lock('a', 10)",
            "select Get_Lock /* x */ ('a', 10)",
            "select `f`(1)",
            "select shop.concat('a')",
            "select `shop` . `f` (1)",
            "select \"f\"(1)",
            "select 1 into @kept",
            "select @kept := 1",
            "select 'a\\' , get_lock('a', 1) -- '",
            "select 1 /*! , get_lock('a', 1) */",
            "select 1 --get_lock\n+ get_lock('a', 1)",
            "insert into t values (next_of(1))",
            "select 1 --\t'\n, get_lock('a', 1)",
            "create table t (a int)",
        ] {
            assert!(!leaves_none(statement), "{statement}");
        }
    }
}
