//! SQLite's own functions whose cost is a product: a value is short, its square is not, and nothing looks
//! at the clock inside a function. Some are made anew in linear time, the others are refused.

use std::collections::HashSet;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::slice;

use libsqlite3_sys as ffi;
use memchr::memmem;

type Context = *mut ffi::sqlite3_context;
type Function = unsafe extern "C" fn(Context, c_int, *mut *mut ffi::sqlite3_value);

/// A pattern of LIKE and GLOB costs as many looks at each character.
const PATTERN_BYTES_MAX: c_int = 200;
/// A statement's text: what it says once is not looked at for time.
const STATEMENT_BYTES_MAX: c_int = 1 << 20;

const LEFT: usize = 1;
const RIGHT: usize = 2;
const NOTHING: *mut c_void = null_mut();

const MADE_ANEW: [(&CStr, c_int, Function, *mut c_void); 5] = [
    (c"instr", 2, instr, NOTHING),
    (c"replace", 3, replace, NOTHING),
    (c"trim", 2, trim, without_provenance_mut(LEFT | RIGHT)),
    (c"ltrim", 2, trim, without_provenance_mut(LEFT)),
    (c"rtrim", 2, trim, without_provenance_mut(RIGHT)),
];

/// What it is, and how else it is done.
const REFUSED: [(&CStr, c_int, &CStr); 3] = [
    (
        c"json_patch",
        2,
        c"the function json_patch is refused; merge the values in the plugin, or use json_set",
    ),
    (
        c"jsonb_patch",
        2,
        c"the function jsonb_patch is refused; merge the values in the plugin, or use jsonb_set",
    ),
    (c"unhex", 2, c"the function unhex with characters to skip is refused; take them out with replace first"),
];

/// Sets them and the bounds for a connection; true if it could.
///
/// # Safety
/// The connection is open, and nothing else uses it meanwhile.
pub unsafe fn bound(connection: *mut ffi::sqlite3) -> bool {
    // SAFETY: as the caller promises; the names and texts are static.
    unsafe {
        ffi::sqlite3_limit(connection, ffi::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_BYTES_MAX);
        ffi::sqlite3_limit(connection, ffi::SQLITE_LIMIT_SQL_LENGTH, STATEMENT_BYTES_MAX);
        let set = |name: &CStr, arguments: c_int, function: Function, data: *mut c_void| {
            let flags = ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC | ffi::SQLITE_INNOCUOUS;
            ffi::sqlite3_create_function_v2(
                connection,
                name.as_ptr(),
                arguments,
                flags,
                data,
                Some(function),
                None,
                None,
                None,
            ) == ffi::SQLITE_OK
        };
        MADE_ANEW.into_iter().all(|(name, arguments, function, data)| set(name, arguments, function, data))
            && REFUSED
                .into_iter()
                .all(|(name, arguments, why)| set(name, arguments, refused, why.as_ptr().cast_mut().cast()))
    }
}

/// An argument as bytes: a blob's, or a text's. None for NULL.
///
/// # Safety
/// The value is an argument of the function that runs, and the bytes are gone with its end.
unsafe fn bytes<'a>(value: *mut ffi::sqlite3_value) -> Option<&'a [u8]> {
    // SAFETY: a pointer that SQLite gives for a value is valid for as many bytes as it says.
    unsafe {
        let start = match ffi::sqlite3_value_type(value) {
            ffi::SQLITE_NULL => return None,
            ffi::SQLITE_BLOB => ffi::sqlite3_value_blob(value).cast::<u8>(),
            _ => ffi::sqlite3_value_text(value),
        };
        let length = usize::try_from(ffi::sqlite3_value_bytes(value)).unwrap_or_default();
        if start.is_null() { Some(&[]) } else { Some(slice::from_raw_parts(start, length)) }
    }
}

unsafe fn answer(context: Context, text: &[u8]) {
    // SAFETY: SQLite copies the text, and refuses one that is too long.
    unsafe {
        let encoding = u8::try_from(ffi::SQLITE_UTF8).unwrap_or_default();
        ffi::sqlite3_result_text64(
            context,
            text.as_ptr().cast(),
            text.len() as u64,
            ffi::SQLITE_TRANSIENT(),
            encoding,
        );
    }
}

unsafe extern "C" fn refused(context: Context, _: c_int, _: *mut *mut ffi::sqlite3_value) {
    // SAFETY: what it was set with is a static text that ends with a zero.
    unsafe {
        let why = ffi::sqlite3_user_data(context);
        ffi::sqlite3_result_error(context, why.cast(), -1);
        ffi::sqlite3_result_error_code(context, ffi::SQLITE_AUTH);
    }
}

/// The place of the second in the first, from 1 on: in characters, between blobs in bytes.
unsafe extern "C" fn instr(context: Context, count: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: SQLite hands as many arguments as it says.
    unsafe {
        let values = slice::from_raw_parts(values, usize::try_from(count).unwrap_or_default());
        let [Some(whole), Some(part)] = [bytes(values[0]), bytes(values[1])] else { return };
        let are_blobs = values.iter().all(|value| ffi::sqlite3_value_type(*value) == ffi::SQLITE_BLOB);
        let place = match memmem::find(whole, part) {
            None => 0,
            Some(at) if are_blobs => at + 1,
            Some(at) if part.is_empty() => at + 1,
            Some(at) => 1 + whole[1..=at].iter().filter(|byte| !continues(**byte)).count(),
        };
        ffi::sqlite3_result_int64(context, i64::try_from(place).unwrap_or(i64::MAX));
    }
}

/// The first with each of the second made the third.
unsafe extern "C" fn replace(context: Context, count: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: as above.
    unsafe {
        let values = slice::from_raw_parts(values, usize::try_from(count).unwrap_or_default());
        let [Some(whole), Some(part)] = [bytes(values[0]), bytes(values[1])] else { return };
        if part.first().is_none_or(|first| *first == 0) {
            return answer(context, whole);
        }
        let Some(other) = bytes(values[2]) else { return };
        let finder = memmem::Finder::new(part);
        let found = finder.find_iter(whole).count();
        let length = whole.len() - found * part.len() + found.saturating_mul(other.len());
        let most = ffi::sqlite3_limit(ffi::sqlite3_context_db_handle(context), ffi::SQLITE_LIMIT_LENGTH, -1);
        if length > usize::try_from(most).unwrap_or_default() {
            return ffi::sqlite3_result_error_toobig(context);
        }
        let mut replaced = Vec::with_capacity(length);
        let mut rest = 0;
        for at in finder.find_iter(whole) {
            replaced.extend_from_slice(&whole[rest..at]);
            replaced.extend_from_slice(other);
            rest = at + part.len();
        }
        replaced.extend_from_slice(&whole[rest..]);
        answer(context, &replaced);
    }
}

/// The first without the second's characters at its ends.
unsafe extern "C" fn trim(context: Context, count: c_int, values: *mut *mut ffi::sqlite3_value) {
    // SAFETY: as above.
    unsafe {
        let values = slice::from_raw_parts(values, usize::try_from(count).unwrap_or_default());
        let [Some(mut left), Some(set)] = [bytes(values[0]), bytes(values[1])] else { return };
        let set = set.split(|byte| *byte == 0).next().unwrap_or_default();
        let set: HashSet<&[u8]> = Characters(set).collect();
        let ends = ffi::sqlite3_user_data(context).addr();
        if ends & LEFT != 0 {
            while let Some(first) = Characters(left).next().filter(|first| set.contains(first)) {
                left = &left[first.len()..];
            }
        }
        if ends & RIGHT != 0 {
            while let Some(last) = last_character(left).filter(|last| set.contains(last)) {
                left = &left[..left.len() - last.len()];
            }
        }
        answer(context, left);
    }
}

fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

struct Characters<'a>(&'a [u8]);

impl<'a> Iterator for Characters<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let behind = self.0.get(1..)?;
        let length = 1 + behind.iter().take_while(|byte| continues(**byte)).count();
        let (character, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(character)
    }
}

fn last_character(text: &[u8]) -> Option<&[u8]> {
    let start = text.iter().rposition(|byte| !continues(*byte))?;
    Some(&text[start..])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use sqlx::sqlite::SqliteConnectOptions;
    use sqlx::{ConnectOptions, SqliteConnection};

    use super::super::session::{Bounds, Session, Terms};
    use super::super::sqlite::{SqliteSession, connect};
    use crate::clock::SystemClock;
    use crate::plugin::bindings::sql::SqlError;
    use crate::plugin::spec::SqlIsolation;

    const BOUNDS: Bounds = Bounds { rows: 10, bytes: 1 << 20 };

    async fn begun() -> SqliteSession {
        let Ok(mut session) =
            connect(&SqliteConnectOptions::new().in_memory(true), Arc::new(SystemClock)).await
        else {
            panic!("no database")
        };
        let terms = Terms {
            isolation: SqlIsolation::Serializable,
            statement: Duration::from_secs(5),
            transaction: Duration::from_secs(5),
            value_bytes: 2 << 20,
        };
        assert!(session.begin(&terms).await.is_ok());
        session
    }

    #[tokio::test]
    async fn what_is_made_anew_answers_as_sqlites_own() {
        let mut plain: SqliteConnection =
            SqliteConnectOptions::new().in_memory(true).connect().await.expect("a database");
        let mut session = begun().await;
        for expression in [
            "instr('abcabc', 'ca')",
            "instr('äöü', 'ü')",
            "instr('äöü', cast('ü' as blob))",
            "instr(x'0102ff', x'ff')",
            "instr(x'c3a4c3b6', x'b6')",
            "instr('abc', 'x')",
            "instr('', 'x')",
            "instr('abc', '')",
            "instr('', '')",
            "instr(x'', '')",
            "instr(12345, 34)",
            "instr(null, 'a')",
            "instr('a', null)",
            "replace('aaaa', 'aa', 'b')",
            "replace('äöä', 'ä', 'xyz')",
            "replace('abc', '', 'z')",
            "replace('abc', 'b', '')",
            "replace('abc', 'q', 'z')",
            "replace(121, 1, 3)",
            "replace('abc', 'b', null)",
            "replace('abc', null, 'b')",
            "replace(x'616263', 'b', 'z')",
            "trim('xxaxbxx', 'x')",
            "ltrim('äöaö', 'öä')",
            "rtrim('aöä', 'öä')",
            "trim('abc', '')",
            "trim('xxxx', 'x')",
            "trim('', 'x')",
            "trim(null, 'x')",
            "trim('x', null)",
            "rtrim(1200, 0)",
            "trim('  a  ')",
        ] {
            let query = format!("select typeof(v) || ':' || quote(v) from (select {expression} as v)");
            let own: String = sqlx::query_scalar(sqlx::AssertSqlSafe(query.clone()))
                .fetch_one(&mut plain)
                .await
                .expect(expression);
            let Ok(ours) = session.query(&query, &[], BOUNDS).await else { panic!("{expression}") };
            let ours = format!("{:?}", ours.rows[0][0]);
            assert!(ours.contains(&format!("{own:?}")), "{expression}: {ours}, not {own}");
        }
    }

    #[tokio::test]
    async fn no_function_takes_the_square_of_a_value() {
        let mut session = begun().await;
        for expression in [
            "instr(zeroblob(2000000), cast(zeroblob(1000000) || x'01' as blob))",
            "length(replace(hex(zeroblob(1000000)), hex(zeroblob(500000)) || '1', ''))",
            "length(trim(hex(zeroblob(1000000)), hex(zeroblob(900000)) || '1'))",
        ] {
            let found = session.query(&format!("select {expression}"), &[], BOUNDS).await;
            assert!(found.is_ok(), "{expression}: {:?}", found.err().map(|failed| failed.error));
        }
        for (expression, expected) in [
            ("instr(zeroblob(16000000), x'01')", "TooLarge"),
            ("replace(hex(zeroblob(1000)), '0', hex(zeroblob(1000000)))", "TooLarge"),
            (
                "hex(zeroblob(100000)) like '%' || hex(zeroblob(50000)) || '1'",
                "LIKE or GLOB pattern too complex",
            ),
            ("json_patch('{}', '{}')", "the function json_patch is refused"),
            ("unhex('0-0', '-')", "the function unhex with characters to skip is refused"),
        ] {
            let failed = session.query(&format!("select {expression}"), &[], BOUNDS).await.err();
            let error = format!("{:?}", failed.expect(expression).error);
            assert!(error.contains(expected), "{expression}: {error}");
        }
        let refused = session.query("select json_patch('{}', '{}')", &[], BOUNDS).await.err();
        assert!(matches!(refused.expect("refused").error, SqlError::Denied(_)));
    }
}
