//! What a component asks for against what this host offers, in sentences with the fix.

use wasmtime::Engine;
use wasmtime::component::Component;

use super::describe::{Description, Need};
use super::exports::Exports;
use super::needs::{self, Capability};
use super::spec::PluginSpec;

/// Packages this host offers to every plugin, with the version it has.
const OFFERED: [(&str, &str); 10] = [
    ("outhaul:delivery", "1.0.0"),
    ("outhaul:log", "1.0.0"),
    ("outhaul:secrets", "1.0.0"),
    ("wasi:cli", "0.2"),
    ("wasi:clocks", "0.2"),
    ("wasi:filesystem", "0.2"),
    ("wasi:http", "0.2"),
    ("wasi:io", "0.2"),
    ("wasi:random", "0.2"),
    ("wasi:sockets", "0.2"),
];

/// Packages a component imports only if its destination's config grants something of them, with the
/// capability that `needs` calls them.
const GRANTED_BY_CONFIG: [(&str, &str, Capability); 2] =
    [("outhaul:net", "1.0.0", Capability::Net), ("outhaul:sql", "1.0.0", Capability::Sql)];

const CONTRACT: &str = "outhaul:delivery";
const DELIVER: &str = "outhaul:delivery/deliver";

/// Says what a file is that is not a component; none if it is one.
pub fn not_a_component(bytes: &[u8]) -> Option<String> {
    match bytes.get(..8) {
        Some([0, b'a', b's', b'm', _, 0, 1, 0]) => None,
        Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => Some(
            "is a core module, not a component; build it for wasm32-wasip2, or wrap it with  \
             wasm-tools component new"
                .to_owned(),
        ),
        Some([0, b'a', b's', b'm', ..]) => Some(
            "is WebAssembly in a binary version this host does not know; build it with current tools"
                .to_owned(),
        ),
        _ => Some(format!(
            "is not WebAssembly: it has {} bytes and does not begin with \\0asm; \
             check  component  in the config",
            bytes.len()
        )),
    }
}

/// The names of what a component exports and imports.
pub fn names(component: &Component, engine: &Engine) -> (Vec<String>, Vec<String>) {
    let component = component.component_type();
    let exports = component.exports(engine).map(|(name, _)| name.to_owned()).collect();
    (exports, component.imports(engine).map(|(name, _)| name.to_owned()).collect())
}

/// Checks the one export that is required and the versions of those that are not, and tells which of
/// these it has.
pub fn check_exports(exports: &[String]) -> Result<Exports, String> {
    let deliver = exports.iter().map(|name| Ask::parse(name)).find(|ask| ask.interface == DELIVER);
    let offered = offered_version(CONTRACT).unwrap_or_default();
    match deliver {
        Some(ask) if fits(&ask.version, offered) => {}
        Some(ask) => return Err(other_version(CONTRACT, &ask.version, offered)),
        None => {
            return Err(format!(
                "the component does not export {DELIVER}@{offered}, which every plugin does; it exports {}; \
                 build it for the world outhaul:delivery/destination",
                if exports.is_empty() { "nothing".to_owned() } else { exports.join(", ") }
            ));
        }
    }
    let mut found = Exports::default();
    for ask in exports.iter().map(|name| Ask::parse(name)) {
        let flag = match ask.interface.strip_prefix("outhaul:delivery/") {
            Some("batch") => &mut found.batch,
            Some("describe") => &mut found.describe,
            Some("check") => &mut found.check,
            Some("tick") => &mut found.tick,
            Some("close") => &mut found.close,
            // An interface of a later version is a feature this host does not use.
            _ => continue,
        };
        if !fits(&ask.version, offered) {
            return Err(other_version(CONTRACT, &ask.version, offered));
        }
        *flag = true;
    }
    Ok(found)
}

/// Checks every import. Returns what may be used only if it is granted, or called optional.
pub fn check_imports(imports: &[String]) -> Result<Vec<Capability>, String> {
    let gated = imports.iter().map(|name| check_import(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(gated.into_iter().flatten().collect())
}

fn check_import(name: &str) -> Result<Option<Capability>, String> {
    let ask = Ask::parse(name);
    if let Some((package, offered, capability)) =
        GRANTED_BY_CONFIG.iter().find(|(package, ..)| *package == ask.package)
    {
        return match fits(&ask.version, offered) {
            true => Ok(Some(*capability)),
            false => Err(other_version(package, &ask.version, offered)),
        };
    }
    match offered_version(&ask.package) {
        Some(offered) if fits(&ask.version, offered) => Ok(None),
        Some(offered) => Err(other_version(&ask.package, &ask.version, offered)),
        None => {
            let offered = OFFERED.map(|(package, version)| format!("{package}@{version}")).join(", ");
            Err(format!(
                "the component imports {name}, which this host does not offer; it offers {offered}; \
                 build the plugin without that import"
            ))
        }
    }
}

/// Refuses what is imported and not granted, unless the plugin says that it works without it. Of a
/// plugin that does not say what it needs, any grant will do.
pub fn check_gated(
    gated: &[Capability],
    said: &Result<Option<Description>, String>,
    spec: &PluginSpec,
) -> Result<(), String> {
    let needs = said.iter().flatten().flat_map(|description| &description.needs);
    for capability in gated {
        let mut of_it = needs.clone().filter(|need| need.capability == capability.as_str()).peekable();
        let is_missing = |need: &&Need| !need.optional && !needs::is_granted(*capability, &need.name, spec);
        let required = of_it.clone().find(is_missing);
        let is_said = of_it.peek().is_some();
        if required.is_none() && (is_said || needs::is_granted(*capability, "", spec)) {
            continue;
        }
        let name = required.map_or("", |need| need.name.as_str());
        let lines = needs::lines(*capability, name, &spec.destination);
        let why = said.as_ref().err().map(|problem| format!("; {problem}")).unwrap_or_default();
        return Err(format!(
            "the component imports outhaul:{}, which this destination is not granted; {lines}; or build the \
             plugin without that import, or let its describe call it optional{why}",
            capability.as_str()
        ));
    }
    Ok(())
}

/// A component of the right version whose types differ all the same.
pub fn mismatch(difference: &str) -> String {
    let offered = offered_version(CONTRACT).unwrap_or_default();
    format!(
        "the component says it is built for the contract this host has ({CONTRACT}@{offered}), but its types \
         differ: {difference}; build it again with the wit/ folder of this version of Outhaul"
    )
}

fn other_version(package: &str, asked: &str, offered: &str) -> String {
    let asked = if asked.is_empty() { "without a version" } else { asked };
    let fix = if is_newer(asked, offered) {
        "use a newer host, or build the plugin for the version this host has"
    } else {
        "build the plugin again with the wit/ folder of this host's version"
    };
    format!("the component is built for {package} {asked}, and this host has {package} {offered}; {fix}")
}

fn offered_version(package: &str) -> Option<&'static str> {
    OFFERED.iter().find(|(offered, _)| *offered == package).map(|(_, version)| *version)
}

/// `package:name/interface@version`, taken apart.
struct Ask {
    package: String,
    interface: String,
    version: String,
}

impl Ask {
    fn parse(name: &str) -> Self {
        let (interface, version) = name.split_once('@').unwrap_or((name, ""));
        let package = interface.split('/').next().unwrap_or(interface);
        Self { package: package.to_owned(), interface: interface.to_owned(), version: version.to_owned() }
    }
}

/// By semantic versioning: below 1.0 the minor number must be the same, from 1.0 the major one. A
/// later patch links too, as long as it asks for nothing this host does not have.
fn fits(asked: &str, offered: &str) -> bool {
    if asked.contains('-') {
        return asked == offered;
    }
    let (asked, offered) = (numbers(asked), numbers(offered));
    asked[0] == offered[0] && (offered[0] > 0 || asked[1] == offered[1])
}

fn is_newer(asked: &str, offered: &str) -> bool {
    numbers(asked) > numbers(offered)
}

fn numbers(version: &str) -> [u64; 3] {
    let core = version.split(['-', '+']).next().unwrap_or("");
    let mut parts = core.split('.').map(|part| part.parse().unwrap_or(u64::MAX));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_a_component_is_named_for_what_it_is() {
        assert_eq!(not_a_component(b"\0asm\x0d\0\x01\0rest"), None);
        assert!(not_a_component(b"\0asm\x01\0\0\0rest").unwrap().contains("core module"));
        assert!(not_a_component(b"#!/bin/sh\necho").unwrap().contains("not WebAssembly"));
        assert!(not_a_component(b"").unwrap().contains("0 bytes"));
    }

    #[test]
    fn a_component_of_another_version_is_told_both_and_the_fix() {
        let exports = ["outhaul:delivery/deliver@2.0.0".to_owned()];
        let error = check_exports(&exports).unwrap_err();
        assert!(
            error.contains("2.0.0") && error.contains("1.0.0") && error.contains("newer host"),
            "{error}"
        );
        let exports = ["outhaul:delivery/deliver@0.1.0".to_owned()];
        let error = check_exports(&exports).unwrap_err();
        assert!(error.contains("build the plugin again"), "{error}");
        assert_eq!(check_exports(&["outhaul:delivery/deliver@1.7.0".to_owned()]), Ok(Exports::default()));
    }

    #[test]
    fn a_component_without_deliver_is_told_what_it_exports() {
        let error = check_exports(&["wasi:cli/run@0.2.6".to_owned()]).unwrap_err();
        assert!(
            error.contains("outhaul:delivery/deliver@1.0.0") && error.contains("wasi:cli/run"),
            "{error}"
        );
    }

    #[test]
    fn optional_exports_are_found_and_one_of_another_version_is_refused() {
        let names = |more: &str| ["outhaul:delivery/deliver@1.0.0".to_owned(), more.to_owned()];
        let found = check_exports(&names("outhaul:delivery/batch@1.0.0")).unwrap();
        assert_eq!(found, Exports { batch: true, ..Exports::default() });
        let error = check_exports(&names("outhaul:delivery/batch@2.0.0")).unwrap_err();
        assert!(error.contains("2.0.0") && error.contains("newer host"), "{error}");
        assert_eq!(check_exports(&names("outhaul:delivery/later@0.1.9")), Ok(Exports::default()));
    }

    fn saying(needs: &[(&str, &str, bool)]) -> Result<Option<Description>, String> {
        let needs = needs.iter().map(|(capability, name, optional)| Need {
            capability: (*capability).into(),
            name: (*name).into(),
            optional: *optional,
            ..Need::default()
        });
        Ok(Some(Description { needs: needs.collect(), ..Description::default() }))
    }

    fn bare(destination: &str) -> PluginSpec {
        PluginSpec::bare(destination, "plugin.wasm")
    }

    #[test]
    fn an_import_that_config_must_grant_is_refused_with_the_lines_to_add() {
        assert_eq!(check_import("outhaul:sql/sql@1.0.0"), Ok(Some(Capability::Sql)));
        let error = check_gated(&[Capability::Sql], &Ok(None), &bare("stock")).unwrap_err();
        assert!(error.contains("outhaul:sql") && error.contains("[destination.stock]"), "{error}");
        assert!(error.contains("[sql.DATABASE]"), "{error}");
        let error =
            check_gated(&[Capability::Net], &saying(&[("net", "broker", false)]), &bare("bus")).unwrap_err();
        assert!(error.contains("[destination.bus.net.broker]"), "{error}");
        let error =
            check_gated(&[Capability::Net], &Err("describe: it trapped".into()), &bare("bus")).unwrap_err();
        assert!(error.contains("describe: it trapped"), "{error}");
        let error = check_import("outhaul:net/net@0.2.0").unwrap_err();
        assert!(error.contains("outhaul:net 0.2.0"), "{error}");
    }

    #[test]
    fn an_import_loads_without_a_grant_where_every_need_of_it_is_optional() {
        let gated = [Capability::Net];
        assert_eq!(
            check_gated(&gated, &saying(&[("net", "a", true), ("net", "b", true)]), &bare("d")),
            Ok(())
        );
        for needs in [&[("net", "a", true), ("net", "b", false)][..], &[("sql", "a", true)], &[]] {
            assert!(check_gated(&gated, &saying(needs), &bare("d")).is_err(), "{needs:?}");
        }
    }

    #[test]
    fn an_import_loads_with_the_grants_it_needs_and_with_any_if_it_does_not_say() {
        let mut spec = bare("bus");
        let grant = crate::plugin::spec::NetGrant { address: "broker:4222".into(), ..Default::default() };
        spec.net.insert("broker".into(), grant);
        assert_eq!(check_gated(&[Capability::Net], &Ok(None), &spec), Ok(()));
        assert_eq!(check_gated(&[Capability::Net], &saying(&[("net", "broker", false)]), &spec), Ok(()));
        let error = check_gated(&[Capability::Net], &saying(&[("net", "other", false)]), &spec).unwrap_err();
        assert!(error.contains("[destination.bus.net.other]"), "{error}");
    }

    #[test]
    fn imports_are_matched_by_package_and_compatible_version() {
        for name in ["wasi:io/streams@0.2.0", "wasi:http/types@0.2.12", "outhaul:log/log@1.0.0"] {
            assert_eq!(check_import(name), Ok(None), "{name}");
        }
        for (name, word) in [
            ("wasi:keyvalue/store@0.2.0", "does not offer"),
            ("wasi:http/types@0.3.0", "wasi:http 0.3.0"),
            ("wasi:io/streams@0.2.0-rc-2023", "0.2.0-rc-2023"),
            ("env", "does not offer"),
        ] {
            let error = check_import(name).unwrap_err();
            assert!(error.contains(word), "{name}: {error}");
        }
    }
}
