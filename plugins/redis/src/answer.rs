//! What Redis's answers mean.

use outhaul_plugin::{Failure, Outcome, Receipt};

use crate::protocol::Answer;

/// The script is not there any more; it has to be loaded again.
pub fn is_unknown_script(answer: &Answer) -> bool {
    matches!(answer, Answer::Error(text) if text.starts_with("NOSCRIPT"))
}

/// Of the script: the entry's ID, and whether it is new.
pub fn outcome(stream: &str, answer: Answer) -> Outcome {
    let (id, is_new) = match answer {
        Answer::List(parts) => match <[Answer; 2]>::try_from(parts) {
            Ok([Answer::Text(id), Answer::Number(is_new)]) => (id, is_new),
            other => return Err(not_understood(&format!("{other:?}"))),
        },
        Answer::Error(text) => return Err(failure(stream, &text)),
        other => return Err(not_understood(&format!("{other:?}"))),
    };
    match is_new {
        1 => Ok(Receipt::delivered().with_reference(format!("{stream}/{id}"))),
        0 => Ok(Receipt::duplicate().with_reference(format!("{stream}/{id}"))),
        _ => Err(Failure::conflict(
            "conflict",
            format!("the entry {id} of the stream {stream} has this ID and other content"),
        )),
    }
}

fn not_understood(answer: &str) -> Failure {
    Failure::retry("bad-answer", format!("Redis's answer is not understood: {answer}")).maybe_applied()
}

/// The words that say what an error is; a script's error may have others in front of them.
const WORDS: [&str; 16] = [
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "WRONGTYPE",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "LOADING",
    "BUSY",
    "MASTERDOWN",
    "READONLY",
    "NOREPLICAS",
    "OOM",
    "MISCONF",
    "NOSCRIPT",
];

fn word(text: &str) -> &str {
    text.split([' ', ':', ',']).find(|word| WORDS.contains(word)).unwrap_or("ERR")
}

pub fn failure(stream: &str, text: &str) -> Failure {
    let word = word(text);
    let code = word.to_ascii_lowercase();
    // Redis repeats the words of a command it does not know, a password among them.
    let (told, _) = text.split_once(", with args").unwrap_or((text, ""));
    let said = |fix: &str| format!("Redis says: {told}{fix}");
    match word {
        "NOAUTH" => Failure::misconfigured(code, said("; it wants a login: see the setting auth")),
        "WRONGPASS" => Failure::misconfigured(code, said("; see the setting auth and its secret")),
        "NOPERM" => Failure::misconfigured(
            code,
            said(
                "; the user needs EVALSHA, SCRIPT LOAD, XADD, GET, SET, PEXPIRE, TIME, WAIT and PING on the streams and the keys of the setting prefix",
            ),
        ),
        "WRONGTYPE" => {
            Failure::misconfigured(code, said(&format!("; the key {stream} exists and is no stream")))
        }
        "MOVED" => Failure::misconfigured(
            code,
            said(&format!(
                "; this is a cluster, and {stream} is on another node: set the endpoint's address to that one, \
                 or reach the cluster through a proxy that follows redirects"
            )),
        ),
        // Each of these passes by itself, or with somebody's help on the server; no event is at fault.
        "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "BUSY" | "MASTERDOWN" | "READONLY"
        | "NOREPLICAS" => Failure::unavailable(code, said("")),
        "OOM" => Failure::unavailable(code, said("; raise maxmemory, or trim the streams")),
        "MISCONF" => Failure::unavailable(code, said("; it can't write to its disk")),
        "ERR" if text.contains("max number of clients") => Failure::unavailable("max-clients", said("")),
        "ERR" if text.contains("AUTH") => Failure::misconfigured("auth", said("; see the setting auth")),
        "ERR" if text.contains("DB index") || text.contains("SELECT") => {
            Failure::misconfigured("database", said("; see the setting database"))
        }
        _ => Failure::retry(code, said("")),
    }
}

/// Whether the connection leads to a server that can't take entries for now, and another may be found.
pub fn is_of_the_server(failure: &Failure) -> bool {
    matches!(failure, Failure::Unavailable(info) if info.code == "readonly")
}

pub fn too_few_replicas(have: i64, want: u32) -> Failure {
    let message = format!("{have} of {want} replicas have it by now; it counts as delivered once all have");
    Failure::unavailable("replicas", message).maybe_applied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(id: &str, is_new: i64) -> Answer {
        Answer::List(vec![Answer::Text(id.into()), Answer::Number(is_new)])
    }

    #[test]
    fn an_entry_is_new_or_was_there_or_differs() {
        assert_eq!(outcome("s", list("1-0", 1)), Ok(Receipt::delivered().with_reference("s/1-0")));
        assert_eq!(outcome("s", list("1-0", 0)), Ok(Receipt::duplicate().with_reference("s/1-0")));
        assert!(
            matches!(outcome("s", list("1-0", -1)), Err(Failure::Conflict(detail)) if detail.message.contains("1-0"))
        );
        for answer in [Answer::None, Answer::List(Vec::new()), Answer::Text("OK".into())] {
            assert!(matches!(outcome("s", answer), Err(Failure::Retry(info)) if info.maybe_applied));
        }
    }

    #[test]
    fn each_error_is_of_the_right_kind_however_a_script_wraps_it() {
        for text in [
            "NOAUTH Authentication required.",
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOPERM this user has no permissions to run the 'xadd' command",
            "WRONGTYPE Operation against a key holding the wrong kind of value script: ab, on @user_script:25.",
            "ERR Error running script (call to f_ab): @user_script:25: WRONGTYPE Operation against a key",
            "MOVED 3999 127.0.0.1:6381",
            "ERR AUTH <password> called without any password configured for the default user.",
            "ERR DB index is out of range",
        ] {
            assert!(matches!(failure("s", text), Failure::Misconfigured(_)), "{text}");
        }
        for text in [
            "LOADING Redis is loading the dataset in memory",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "ERR Error running script: @user_script: 25: OOM command not allowed",
            "READONLY You can't write against a read only replica.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "CLUSTERDOWN The cluster is down",
            "ERR max number of clients reached",
        ] {
            let failure = failure("s", text);
            let Failure::Unavailable(info) = &failure else { panic!("{text}") };
            assert!(!info.maybe_applied && info.message.contains(text));
            assert_eq!(is_of_the_server(&failure), text.starts_with("READONLY"));
        }
        assert!(matches!(failure("s", "ERR something else"), Failure::Retry(_)));
        // A server that can't log anybody in repeats what it was sent.
        let repeated = "ERR unknown command 'AUTH', with args beginning with: 'shop' 'hunter2' ";
        let Failure::Misconfigured(detail) = failure("", repeated) else { panic!("{repeated}") };
        assert!(detail.message.contains("unknown command 'AUTH'"), "{}", detail.message);
        assert!(
            !detail.message.contains("hunter2") && !detail.message.contains("shop"),
            "{}",
            detail.message
        );
        assert!(is_unknown_script(&Answer::Error("NOSCRIPT No matching script.".into())));
    }
}
