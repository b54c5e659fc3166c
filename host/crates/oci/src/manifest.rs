//! Manifests and indexes, as far as a component needs them. Everything else in them is ignored, among it addresses (`urls`) and
//! embedded contents (`data`), which would lead around the registry and its digests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::RegistryError;
use crate::reference::Digest;

/// Maximum number of bytes of a manifest or an index. Registries have the same limit.
pub(crate) const MAX_MANIFEST: u64 = 4 << 20;
/// Maximum number of bytes of a layer. A component that is larger cannot be approved.
pub const MAX_LAYER: u64 = 64 << 20;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
const WASM_LAYER: &str = "application/wasm";
/// The type of the layer that Spin and `wasm-to-oci` write.
const OLDER_WASM_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";
/// The architecture that an index gives to a manifest of WebAssembly.
const WASM_ARCHITECTURE: &str = "wasm";
/// The first system with components, by which other programs recognise them.
const COMPONENT_OS: &str = "wasip2";
/// The time that a configuration has to name. It is always the same, so that the same bytes have the same digest.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// Digest and size of bytes that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

/// A document of a registry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// The manifest of a component, with its layer.
    Manifest(Blob),
    /// An index, with the manifest of a component in it.
    Index(Blob),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    schema_version: u64,
    media_type: Option<String>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    architecture: Option<String>,
}

impl Document {
    /// Reads a document that was sent with this content type.
    pub(crate) fn read(bytes: &[u8], content_type: &str) -> Result<Self, RegistryError> {
        let wrong = |why: &str| RegistryError::Layout(why.to_owned());
        let written: Written = serde_json::from_slice(bytes).map_err(|error| {
            RegistryError::Layout(format!("line {} is not as in a manifest", error.line()))
        })?;
        if written.schema_version != 2 {
            return Err(wrong("its schemaVersion is not 2"));
        }
        let declared = content_type.split(';').next().unwrap_or_default().trim();
        // Two readers would take the document for different things.
        if written.media_type.as_deref().is_some_and(|inner| inner != declared) {
            return Err(wrong("its mediaType is not the type that it was sent with"));
        }
        match (declared, written.layers, written.manifests) {
            (MANIFEST, Some(layers), None) => layer(&layers).map(Self::Manifest),
            (INDEX, None, Some(manifests)) => component(&manifests).map(Self::Index),
            (MANIFEST | INDEX, ..) => Err(wrong("it has not the fields of its type")),
            _ => Err(wrong("it is of another type")),
        }
    }
}

/// A part of a manifest or an index, as those that hold signatures have it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Part {
    pub(crate) media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    pub(crate) artifact_type: Option<String>,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Part {
    /// Returns what is named; `None` if that is named by another algorithm, or has more than `most` bytes.
    pub(crate) fn blob(&self, most: u64) -> Option<Blob> {
        let digest = self.digest.parse().ok().filter(|_| self.size <= most)?;
        Some(Blob { digest, size: self.size })
    }
}

/// Returns the layers of a manifest, or the manifests of an index; none of a document that has no such list.
pub(crate) fn parts(document: &[u8]) -> Vec<Part> {
    #[derive(Deserialize)]
    struct Parts {
        layers: Option<Vec<Part>>,
        manifests: Option<Vec<Part>>,
    }
    let parts: Option<Parts> = serde_json::from_slice(document).ok();
    parts.and_then(|parts| parts.layers.or(parts.manifests)).unwrap_or_default()
}

/// Returns the layer of the component.
fn layer(layers: &[Descriptor]) -> Result<Blob, RegistryError> {
    let [layer] = layers else {
        return Err(RegistryError::Layout(format!(
            "it has {} layers instead of one",
            layers.len()
        )));
    };
    if ![WASM_LAYER, OLDER_WASM_LAYER].contains(&layer.media_type.as_str()) {
        return Err(RegistryError::Layout("its layer is not WebAssembly".to_owned()));
    }
    let blob = layer.blob()?;
    if blob.size > MAX_LAYER {
        return Err(RegistryError::TooLarge { what: "the component", most: MAX_LAYER });
    }
    Ok(blob)
}

/// Returns the manifest of the component: the only one, or the only one of WebAssembly.
fn component(manifests: &[Descriptor]) -> Result<Blob, RegistryError> {
    let is_wasm = |one: &&Descriptor| {
        one.platform.as_ref().and_then(|platform| platform.architecture.as_deref())
            == Some(WASM_ARCHITECTURE)
    };
    let wasm: Vec<_> = manifests.iter().filter(is_wasm).collect();
    let one = match (manifests, wasm.as_slice()) {
        ([one], _) => one,
        (_, [one]) => one,
        _ => {
            let why = format!(
                "an index with {} manifests of WebAssembly; name the manifest by its digest",
                wasm.len()
            );
            return Err(RegistryError::Layout(why));
        }
    };
    if one.media_type != MANIFEST {
        return Err(RegistryError::Layout("its index leads to no manifest".to_owned()));
    }
    let blob = one.blob()?;
    if blob.size > MAX_MANIFEST {
        return Err(RegistryError::TooLarge { what: "the manifest", most: MAX_MANIFEST });
    }
    Ok(blob)
}

impl Descriptor {
    fn blob(&self) -> Result<Blob, RegistryError> {
        let digest = self.digest.parse();
        let digest = digest.map_err(|_| RegistryError::Layout("it names no SHA-256".to_owned()))?;
        Ok(Blob { digest, size: self.size })
    }
}

/// The two documents of a pushed component.
pub(crate) struct Pushed {
    pub(crate) config: Vec<u8>,
    pub(crate) manifest: Vec<u8>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    created: &'static str,
    architecture: &'static str,
    os: &'static str,
    layer_digests: [String; 1],
    component: Interface<'a>,
}

#[derive(Serialize)]
struct Interface<'a> {
    exports: &'a [String],
    imports: &'a [String],
    target: Option<&'a str>,
}

/// Returns the documents of a component with these imports and exports.
pub(crate) fn written(
    component: &[u8],
    imports: &[String],
    exports: &[String],
) -> serde_json::Result<Pushed> {
    let digest = Digest::of(component);
    let config = serde_json::to_vec(&Config {
        created: CREATED,
        architecture: WASM_ARCHITECTURE,
        os: COMPONENT_OS,
        layer_digests: [digest.to_string()],
        component: Interface { exports, imports, target: None },
    })?;
    let descriptor = |kind: &str, bytes: &[u8]| {
        serde_json::json!({
            "mediaType": kind, "digest": Digest::of(bytes).to_string(), "size": bytes.len(),
        })
    };
    let manifest = serde_json::to_vec(&serde_json::json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(WASM_CONFIG, &config),
        "layers": [descriptor(WASM_LAYER, component)],
    }))?;
    Ok(Pushed { config, manifest })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn descriptor(kind: &str, size: u64) -> Value {
        json!({"mediaType": kind, "digest": Digest::of(b"x").to_string(), "size": size,
            "urls": ["http://169.254.169.254/"], "data": "aGVsbG8="})
    }

    fn read(document: &Value, kind: &str) -> Result<Document, &'static str> {
        Document::read(document.to_string().as_bytes(), kind).map_err(|error| error.code())
    }

    // OCI-3
    #[test]
    fn a_component_is_one_layer_of_webassembly() {
        let blob = |size| Blob { digest: Digest::of(b"x"), size };
        let manifest = |layers: Value| json!({"schemaVersion": 2, "layers": layers});
        for kind in [WASM_LAYER, OLDER_WASM_LAYER] {
            let document = manifest(json!([descriptor(kind, 1)]));
            assert_eq!(read(&document, MANIFEST), Ok(Document::Manifest(blob(1))));
        }
        let wasm = || descriptor(WASM_LAYER, 1);
        for layers in [
            json!([]),
            json!([wasm(), wasm()]),
            json!([descriptor("application/octet-stream", 1)]),
            json!([{"mediaType": WASM_LAYER, "digest": "sha512:00", "size": 1}]),
            json!([{"mediaType": WASM_LAYER, "digest": Digest::of(b"x").to_string(), "size": -1}]),
        ] {
            assert_eq!(
                read(&manifest(layers.clone()), MANIFEST),
                Err("artifact_unknown"),
                "{layers}"
            );
        }
        let large = manifest(json!([descriptor(WASM_LAYER, MAX_LAYER + 1)]));
        assert_eq!(read(&large, MANIFEST), Err("artifact_too_large"));
        let limit = manifest(json!([descriptor(WASM_LAYER, MAX_LAYER)]));
        assert_eq!(read(&limit, MANIFEST), Ok(Document::Manifest(blob(MAX_LAYER))));
    }

    // OCI-3
    #[test]
    fn a_document_that_two_readers_take_for_different_things_is_refused() {
        let layers = json!([descriptor(WASM_LAYER, 1)]);
        let manifests = json!([descriptor(MANIFEST, 1)]);
        let other = json!({"schemaVersion": 2, "mediaType": INDEX, "layers": layers});
        assert_eq!(read(&other, MANIFEST), Err("artifact_unknown"));
        let both = json!({"schemaVersion": 2, "layers": layers, "manifests": manifests});
        for kind in [MANIFEST, INDEX, "application/json", ""] {
            assert_eq!(read(&both, kind), Err("artifact_unknown"), "{kind}");
        }
        let twice = r#"{"schemaVersion":2,"layers":[],"layers":[]}"#;
        assert_eq!(
            Document::read(twice.as_bytes(), MANIFEST).map_err(|error| error.code()),
            Err("artifact_unknown")
        );
        let old = json!({"schemaVersion": 1, "layers": layers});
        assert_eq!(read(&old, MANIFEST), Err("artifact_unknown"));
    }

    // OCI-3
    #[test]
    fn an_index_leads_to_the_one_manifest_of_webassembly_and_no_further() {
        let on = |architecture: &str| {
            let mut one = descriptor(MANIFEST, 7);
            one["platform"] = json!({"architecture": architecture, "os": "wasip2"});
            one
        };
        let index = |manifests: Value| json!({"schemaVersion": 2, "manifests": manifests});
        let found = Ok(Document::Index(Blob { digest: Digest::of(b"x"), size: 7 }));
        assert_eq!(read(&index(json!([descriptor(MANIFEST, 7)])), INDEX), found);
        assert_eq!(read(&index(json!([on("amd64"), on("wasm"), on("arm64")])), INDEX), found);
        for manifests in [
            json!([]),
            json!([on("wasm"), on("wasm")]),
            json!([on("amd64"), on("arm64")]),
            json!([descriptor(INDEX, 7)]),
        ] {
            assert_eq!(
                read(&index(manifests.clone()), INDEX),
                Err("artifact_unknown"),
                "{manifests}"
            );
        }
        let large = index(json!([descriptor(MANIFEST, MAX_MANIFEST + 1)]));
        assert_eq!(read(&large, INDEX), Err("artifact_too_large"));
    }

    // OCI-8
    #[test]
    fn the_documents_of_a_component_can_be_read_and_are_the_same_each_time() {
        let names = ["a:b/c".to_owned()];
        let pushed = written(b"x", &names, &[]).unwrap();
        let again = written(b"x", &names, &[]).unwrap();
        assert_eq!((&pushed.config, &pushed.manifest), (&again.config, &again.manifest));
        let read = Document::read(&pushed.manifest, MANIFEST);
        assert_eq!(read, Ok(Document::Manifest(Blob { digest: Digest::of(b"x"), size: 1 })));
        let config: Value = serde_json::from_slice(&pushed.config).unwrap();
        assert_eq!(config["component"]["imports"], json!(["a:b/c"]));
        assert_eq!((&config["architecture"], &config["os"]), (&json!("wasm"), &json!("wasip2")));
    }
}
