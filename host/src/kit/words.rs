//! What a plugin may be called: a name that is a package, a module and a file in every language.

/// Words that some language, or its package manager, keeps for itself. Names with a hyphen are none.
const RESERVED: &str = "
    abstract and as assert async auto await become box break case catch chan char class const continue
    core crate debugger def default defer del delete do double dyn elif else enum except export extends
    extern fallthrough false final finally float fn for from func function global go goto if impl implements
    import in inline instanceof int interface is lambda let long loop macro map match mod module move mut new
    nonlocal not null or override package pass priv private proc protected pub public raise range ref
    register restrict return select self short signed sizeof static std struct super switch test this throw
    trait true try type typedef typeof union unsafe unsigned unsized use var virtual void volatile
    where while with yield
";

const LENGTH_MAX: usize = 64;

pub fn check_name(name: &str) -> Result<(), &'static str> {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.split('-').all(is_word) {
        return Err("it takes lower-case words joined by hyphens, such as order-webhook");
    }
    if name.len() > LENGTH_MAX {
        return Err("it takes at most 64 characters");
    }
    if RESERVED.split_whitespace().any(|word| word == name) || name == "outhaul-plugin" {
        return Err("a programming language keeps that word for itself; add another, such as order-webhook");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_lower_case_words_joined_by_hyphens() {
        for name in ["webhook", "order-webhook", "s3", "a-2"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in
            ["", "-", "a-", "-a", "a--b", "Order", "order_sink", "2fast", "../x", "a b", "é", "fn", "test"]
        {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(check_name(&"a".repeat(65)).is_err());
    }
}
