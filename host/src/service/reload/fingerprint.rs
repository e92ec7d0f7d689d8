//! What tells two generations of a destination's plugin apart: the component's bytes, what the
//! config grants and sets, and what every secret and certificate it refers to holds.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::plugin::spec::PluginSpec;
use crate::plugin::{Reference, description_files};
use crate::service::config::file::Destination;
use crate::service::config::{SecretRef, UrlRef};
use crate::service::mapping::{canary_spec, plugin_spec};

/// Kept in memory only: it is made of secrets, too.
pub type Fingerprint = [u8; 32];

/// Reads files, so it belongs on a thread that may wait. What can't be read counts as such: once it
/// can, the fingerprint is another.
pub fn of(name: &str, destination: &Destination) -> Fingerprint {
    let mut hasher = Sha256::new();
    // Where the component lies makes no difference; what it holds is read below. One that is pulled is
    // what its reference says.
    let spec = PluginSpec { component: PathBuf::new(), ..plugin_spec(name, destination) };
    feed(&mut hasher, format!("{spec:?}").as_bytes());
    if let (Some(canary), Some(spec)) = (&destination.canary, canary_spec(name, destination)) {
        let spec = PluginSpec { component: PathBuf::new(), ..spec };
        feed(&mut hasher, format!("{:?} {spec:?}", canary.share).as_bytes());
    }
    for path in files(destination) {
        let what = read(&path);
        feed(&mut hasher, what.as_deref().unwrap_or_else(|why| why.as_bytes()));
    }
    for database in destination.databases.values() {
        // What it prints of itself has no password.
        feed(&mut hasher, serde_json::to_string(&database.url).unwrap_or_default().as_bytes());
    }
    for secret in secrets(destination) {
        if let SecretRef::Env(_) = secret {
            feed(&mut hasher, secret.read().unwrap_or_else(|why| why).as_bytes());
        }
    }
    hasher.finalize().into()
}

/// Every file a generation of this destination is made of.
pub fn files(destination: &Destination) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let canary = destination.canary.as_ref().map(|canary| &canary.component);
    for component in [&destination.component].into_iter().chain(canary) {
        if !Reference::is_one(component) {
            let component = PathBuf::from(component);
            files.extend(description_files(&component));
            files.push(component);
        }
    }
    let of_canary = destination.canary.iter().filter_map(|canary| canary.signature.as_ref());
    let signatures = destination.signature.iter().chain(of_canary);
    files.extend(signatures.flat_map(|check| [check.key.clone(), check.file.clone()]));
    for origin in &destination.http {
        files.extend(origin.roots.clone());
        files.extend(origin.client_cert.as_ref().map(|client| client.cert.clone()));
    }
    for endpoint in destination.net.values() {
        files.extend(endpoint.roots.clone());
        files.extend(endpoint.client_cert.as_ref().map(|client| client.cert.clone()));
    }
    for secret in secrets(destination) {
        if let SecretRef::File(path) = secret {
            files.push(path.clone());
        }
    }
    files
}

fn secrets(destination: &Destination) -> Vec<&SecretRef> {
    let of_http = destination.http.iter().flat_map(|origin| {
        let key = origin.client_cert.as_ref().map(|client| &client.key);
        origin.headers.values().chain(key)
    });
    let of_net =
        destination.net.values().flat_map(|endpoint| &endpoint.client_cert).map(|client| &client.key);
    let granted = destination.secrets.values().flat_map(|secret| &secret.keys);
    let of_sql = destination.databases.values().filter_map(|database| match &database.url {
        UrlRef::Secret(secret) => Some(secret),
        UrlRef::Text(_) => None,
    });
    of_http.chain(of_net).chain(granted).chain(of_sql).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    // A device or a pipe could be read for ever.
    match path.metadata() {
        Ok(found) if found.is_file() => std::fs::read(path).map_err(|error| error.to_string()),
        Ok(_) => Err("not a regular file".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// With its length in front, so that no two lists of parts read the same.
fn feed(hasher: &mut Sha256, part: &[u8]) {
    hasher.update((part.len() as u64).to_be_bytes());
    hasher.update(part);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::config::read_text;

    fn destination(folder: &Path, lines: &str) -> Destination {
        let text = format!(
            "version = 1\n[outbox]\nurl = \"sqlite:o.db\"\n[destination.hook]\ncomponent = \"a.wasm\"\n\
             topics = [\"*\"]\n{lines}"
        );
        let file = read_text(&text, folder).unwrap_or_else(|problems| panic!("{problems:#?}"));
        file.destination["hook"].clone()
    }

    #[test]
    fn it_changes_with_what_a_plugin_is_made_of_and_with_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("a.wasm", "component");
        write("b.wasm", "component");
        for name in ["key", "header", "roots.pem", "cert.pem", "key.pem", "plugins.pub", "a.minisig", "url"] {
            write(name, "one");
        }
        let lines = "signature = { key = \"plugins.pub\", file = \"a.minisig\" }\n\
                     sql = [\"shop\"]\n\
                     secrets.signing = { keys = [{ file = \"key\" }], use = [\"reveal\"] }\n\
                     [[destination.hook.http]]\norigin = \"https://h\"\n\
                     headers = { a = { file = \"header\" } }\nroots = \"roots.pem\"\n\
                     client_cert = { cert = \"cert.pem\", key = { file = \"key.pem\" } }\n\
                     [sql.shop]\nurl = { file = \"url\" }\n";
        let of_lines = |more: &str| of("hook", &destination(folder.path(), &format!("{more}{lines}")));
        let first = of_lines("");
        for same in ["required = true\n", "batch = 7\n", "lease = \"50s\"\n", "stop_after_rejections = 3\n"] {
            assert_eq!(of_lines(same), first, "{same}");
        }
        let mut moved = destination(folder.path(), lines);
        moved.component = folder.path().join("b.wasm").display().to_string();
        assert_eq!(of("hook", &moved), first);
        write("next.wasm", "next");
        let canary = |share: &str| {
            let signature = "signature = { key = \"plugins.pub\", file = \"a.minisig\" }";
            of_lines(&format!("canary = {{ component = \"next.wasm\", share = \"{share}\", {signature} }}\n"))
        };
        let with_canary = canary("5%");
        assert_ne!(with_canary, first);
        assert_ne!(with_canary, canary("6%"));
        write("next.wasm", "after next");
        assert_ne!(with_canary, canary("5%"));
        for other in ["concurrency = 3\n", "settings = { a = 1 }\n", "limits = { call = \"1s\" }\n"] {
            assert_ne!(of_lines(other), first, "{other}");
        }
        for other in ["url = \"sqlite:s.db\"", "url = { file = \"url\" }\npool = 3"] {
            let lines = lines.replace("url = { file = \"url\" }", other);
            assert_ne!(of("hook", &destination(folder.path(), &lines)), first, "{other}");
        }
        assert_ne!(of("hook-2", &destination(folder.path(), lines)), first);
        let beside = ["a.wasm", "plugin.toml", "a.plugin.toml", "plugins.pub", "a.minisig"];
        let granted = ["key", "header", "roots.pem", "cert.pem", "key.pem", "url"];
        for file in beside.into_iter().chain(granted) {
            let path = folder.path().join(file);
            let before = std::fs::read(&path).ok();
            write(file, "two");
            assert_ne!(of_lines(""), first, "{file}");
            match before {
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            assert_eq!(of_lines(""), first, "{file}");
        }
    }
}
