//! An image manifest of the OCI, and the one component it holds.

use serde::Deserialize;

use super::reference::is_sha256;

/// What manifests are asked for as.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The layer of a component by the CNCF's guidance, and the one of tools before it.
const COMPONENT: [&str; 2] = ["application/wasm", "application/vnd.wasm.content.layer.v1+wasm"];

/// A component in the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Hex SHA-256.
    pub digest: String,
    pub bytes: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    media_type: Option<String>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    /// An index's.
    manifests: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

/// The component's layer. The error says what is there instead.
pub fn component(manifest: &[u8]) -> Result<Layer, String> {
    let push = "push a component as one layer of application/wasm, as  wkg oci push  does";
    let manifest: Manifest = serde_json::from_slice(manifest)
        .map_err(|error| format!("its manifest is not one of the OCI ({error}); {push}"))?;
    if manifest.manifests.is_some() {
        return Err("it is an index of several images; name one of them by its digest".to_owned());
    }
    if let Some(found) = manifest.media_type.filter(|found| found != MANIFEST) {
        return Err(format!("its manifest is of the media type {found}, not {MANIFEST}; {push}"));
    }
    let [layer] = &manifest.layers[..] else {
        let found = manifest.layers.len();
        return Err(format!("it has {found} layers, and a component has one; {push}"));
    };
    if !COMPONENT.contains(&&*layer.media_type) {
        let found = &layer.media_type;
        return Err(format!("its layer is of the media type {found}, which is no component's; {push}"));
    }
    let digest = layer.digest.strip_prefix("sha256:").filter(|hex| is_sha256(hex));
    let digest =
        digest.ok_or_else(|| format!("its layer has the digest {:?}, not a SHA-256", layer.digest))?;
    Ok(Layer { digest: digest.to_ascii_lowercase(), bytes: layer.size })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn layer(media_type: &str) -> serde_json::Value {
        json!({ "mediaType": media_type, "digest": format!("sha256:{}", "0a".repeat(32)), "size": 7 })
    }

    #[test]
    fn the_component_is_the_one_layer_of_a_standard_manifest() {
        for media_type in COMPONENT {
            let manifest =
                json!({ "schemaVersion": 2, "mediaType": MANIFEST, "layers": [layer(media_type)] });
            let found = component(manifest.to_string().as_bytes()).unwrap();
            assert_eq!(found, Layer { digest: "0a".repeat(32), bytes: 7 });
        }
    }

    #[test]
    fn what_holds_no_component_is_named_for_what_it_is() {
        let tar = "application/vnd.oci.image.layer.v1.tar+gzip";
        let odd = json!({ "mediaType": COMPONENT[0], "digest": "sha512:00", "size": 7 });
        for (manifest, word) in [
            (json!({ "layers": [layer(tar)] }), tar),
            (json!({ "layers": [] }), "0 layers"),
            (json!({ "layers": [layer(COMPONENT[0]), layer(COMPONENT[0])] }), "2 layers"),
            (json!({ "mediaType": "application/vnd.docker.distribution.manifest.v2+json" }), "docker"),
            (json!({ "manifests": [] }), "index"),
            (json!({ "layers": [odd] }), "sha512:00"),
            (json!("x"), "not one of the OCI"),
        ] {
            let why = component(manifest.to_string().as_bytes()).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }
}
