//! The image of the containers of a Pod that are ours: one static program, as an archive in the layout of OCI.

use act_workspace::digest;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The program in `sandbox/`; empty if this machine could not build it.
const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/act-sandbox"));

/// The image that `act` gives to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoaderImage {
    /// The digest of its manifest, by which `loader` in `engines.toml` names it.
    pub digest: String,
    blobs: Vec<(String, Vec<u8>)>,
    index: Vec<u8>,
}

impl LoaderImage {
    /// Makes the image. The same `act` always makes the same one.
    ///
    /// # Errors
    /// This `act` was built without the program.
    pub fn new() -> io::Result<Self> {
        if PROGRAM.is_empty() {
            return Err(io::Error::other(
                "this act was built without the program for Pods; build it on Linux with a static C library",
            ));
        }
        let layer = layer()?;
        let config = bytes(&json!({
            "architecture": architecture(),
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": {"Entrypoint": ["/act-sandbox"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", digest(&layer))]},
            "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "act engines image"}],
        }));
        let manifest = bytes(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described("application/vnd.oci.image.config.v1+json", &config),
            "layers": [described("application/vnd.oci.image.layer.v1.tar", &layer)],
        }));
        let mut of_index = described("application/vnd.oci.image.manifest.v1+json", &manifest);
        of_index["annotations"] = json!({
            "io.containerd.image.name": REFERENCE, "org.opencontainers.image.ref.name": "1",
        });
        let index = bytes(&json!({"schemaVersion": 2, "manifests": [of_index]}));
        let blobs = [layer, config, manifest];
        let digest_of_manifest = digest(blobs.last().map(Vec::as_slice).unwrap_or_default());
        Ok(Self {
            digest: format!("sha256:{digest_of_manifest}"),
            blobs: blobs.into_iter().map(|blob| (digest(&blob), blob)).collect(),
            index,
        })
    }

    /// Returns the manifest, and the blobs that it names.
    pub fn parts(&self) -> (Vec<u8>, Vec<&[u8]>) {
        let (manifest, blobs) = match self.blobs.split_last() {
            Some(((_, manifest), blobs)) => (manifest.clone(), blobs),
            None => (vec![], &[][..]),
        };
        (manifest, blobs.iter().map(|(_, blob)| blob.as_slice()).collect())
    }

    /// Writes the image as a tar archive in the layout of OCI, which `ctr images import`, `skopeo` and `podman load` read.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        let mut archive = tar::Builder::new(to);
        add(&mut archive, "oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        add(&mut archive, "index.json", 0o644, &self.index)?;
        for (digest, blob) in &self.blobs {
            add(&mut archive, &format!("blobs/sha256/{digest}"), 0o644, blob)?;
        }
        archive.into_inner()?.flush()
    }
}

/// The name that a runtime gives the image when it imports the archive.
const REFERENCE: &str = "registry.local/act-loader:1";

/// Returns the architecture of the program, by the name that images and nodes have for it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn layer() -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(vec![]);
    add(&mut archive, "act-sandbox", 0o555, PROGRAM)?;
    archive.into_inner()
}

fn add<W: Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    mode: u32,
    content: &[u8],
) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    archive.append_data(&mut header, name, content)
}

fn described(kind: &str, blob: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": format!("sha256:{}", digest(blob)), "size": blob.len()})
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::io::Read;

    #[test]
    fn the_image_holds_what_its_digests_say_and_is_always_the_same() {
        if PROGRAM.is_empty() {
            act_core::testing::skip("this machine links no static program");
            return;
        }
        let image = LoaderImage::new().unwrap();
        assert_eq!(image, LoaderImage::new().unwrap());
        let mut written = vec![];
        image.write(&mut written).unwrap();
        let mut files = HashMap::new();
        for entry in tar::Archive::new(&written[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = vec![];
            entry.read_to_end(&mut content).unwrap();
            files.insert(entry.path().unwrap().display().to_string(), content);
        }
        let blob = |name: &Value| {
            let name = name.as_str().unwrap().trim_start_matches("sha256:");
            let content = &files[&format!("blobs/sha256/{name}")];
            assert_eq!(digest(content), name);
            content.clone()
        };
        let (manifest, blobs) = image.parts();
        assert_eq!(
            (format!("sha256:{}", digest(&manifest)), blobs.len()),
            (image.digest.clone(), 2)
        );
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        assert_eq!(index["manifests"][0]["digest"], image.digest.as_str());
        let manifest: Value =
            serde_json::from_slice(&blob(&index["manifests"][0]["digest"])).unwrap();
        blob(&manifest["config"]["digest"]);
        let layer = blob(&manifest["layers"][0]["digest"]);
        let mut archive = tar::Archive::new(&layer[..]);
        let mut program = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!(program.header().mode().unwrap(), 0o555);
        let mut content = vec![];
        program.read_to_end(&mut content).unwrap();
        assert_eq!(content, PROGRAM);
    }
}
