//! Operations on one reference: its manifest is resolved, the component behind it is fetched, and a component is stored.

use act_core::Failure;
use act_core::public_key::PublicKey;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use reqwest::{Method, Response, StatusCode};

use crate::error::RegistryError;
use crate::manifest::{self, Blob, Document, INDEX, MANIFEST, MAX_MANIFEST, Part};
use crate::reference::{Digest, Reference};
use crate::signature::{self, MAX_SIGNATURES, Signatures};
use crate::transport::{Access, Request, Scope, Surroundings, Transport};

/// The types of documents that are asked for.
const DOCUMENTS: &str =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";
/// The digest of a document as the registry sees it.
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// The registry of one reference.
pub struct Registry {
    reference: Reference,
    transport: Transport,
}

/// A reference, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The digest of the document that the reference names: of the index if it is one.
    pub digest: Digest,
    layer: Blob,
}

/// A component to store, with the names of its imports and exports.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'a> {
    pub component: &'a [u8],
    pub imports: &'a [String],
    pub exports: &'a [String],
}

/// A document that was fetched.
struct Fetched {
    bytes: Vec<u8>,
    digest: Digest,
    content_type: String,
}

impl Registry {
    /// Prepares requests that read. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The host of the reference is none.
    pub fn for_pull(reference: &Reference, access: Access) -> Result<Self, Failure> {
        Ok(Self::new(reference, Scope::Pull, access, Surroundings::default())?)
    }

    /// Prepares requests that read and write. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The host of the reference is none.
    pub fn for_push(reference: &Reference, access: Access) -> Result<Self, Failure> {
        Ok(Self::new(reference, Scope::Push, access, Surroundings::default())?)
    }

    pub(crate) fn new(
        reference: &Reference,
        scope: Scope,
        access: Access,
        surroundings: Surroundings,
    ) -> Result<Self, RegistryError> {
        let (host, repository) = (reference.host(), reference.repository());
        let transport = Transport::new(host, repository, scope, access, surroundings)?;
        Ok(Self { reference: reference.clone(), transport })
    }

    /// Finds the manifest of the reference.
    ///
    /// # Errors
    ///
    /// A [`RegistryError`]: there is none, it is none of a component, or the registry cannot be used.
    pub async fn resolve(&self) -> Result<Resolved, RegistryError> {
        let version = self.reference.version();
        let named = self.document(&version, MAX_MANIFEST).await?;
        if let Some(expected) = self.reference.digest().filter(|one| **one != named.digest) {
            return Err(RegistryError::digest("the manifest", expected, &named.digest));
        }
        let digest = named.digest.clone();
        let layer = match Document::read(&named.bytes, &named.content_type)? {
            Document::Manifest(layer) => layer,
            Document::Index(blob) => self.of_index(&blob).await?,
        };
        Ok(Resolved { digest, layer })
    }

    /// Returns the digest that the reference names now. The manifest is read in full, so that the digest is no claim.
    ///
    /// # Errors
    ///
    /// A [`RegistryError`], as [`Registry::resolve`].
    pub async fn digest(&self) -> Result<Digest, RegistryError> {
        Ok(self.document(&self.reference.version(), MAX_MANIFEST).await?.digest)
    }

    /// Fetches the component of a manifest. Its bytes have the size and the digest that the manifest names, and are as hostile as
    /// whoever wrote them.
    ///
    /// # Errors
    ///
    /// A [`RegistryError`]: the bytes are others, or the registry cannot be used.
    pub async fn fetch(&self, resolved: &Resolved) -> Result<Vec<u8>, RegistryError> {
        const WHAT: &str = "the component";
        let Blob { digest, size } = &resolved.layer;
        let url = self.transport.url(&self.path(&format!("blobs/{digest}")))?;
        let answer = self.transport.send(url, &Request::new(Method::GET)).await?;
        let answer = self.expect(answer, StatusCode::OK, || format!("layer {digest}"))?;
        let bytes = self.transport.body(answer, WHAT, *size).await?;
        check(WHAT, &resolved.layer, &bytes, &Digest::of(&bytes))?;
        Ok(bytes)
    }

    /// Stores a component under the tag of the reference and returns the digest of its manifest.
    ///
    /// # Errors
    ///
    /// A [`RegistryError`]: the reference has no tag, or the registry refuses the component or cannot be used.
    pub async fn push(&self, contents: Contents<'_>) -> Result<Digest, RegistryError> {
        let Contents { component, imports, exports } = contents;
        let pushed = manifest::written(component, imports, exports)
            .map_err(|error| RegistryError::Layout(error.to_string()))?;
        self.store(&[component, &pushed.config], pushed.manifest).await
    }

    /// Stores a manifest with its blobs under the tag of the reference and returns its digest.
    ///
    /// # Errors
    ///
    /// A [`RegistryError`]: the reference has no tag, or the registry refuses something or cannot be used.
    pub async fn store(&self, blobs: &[&[u8]], manifest: Vec<u8>) -> Result<Digest, RegistryError> {
        let Some(tag) = self.reference.tag() else {
            return Err(RegistryError::Layout("what is stored needs a tag".to_owned()));
        };
        for blob in blobs {
            self.put_blob(blob).await?;
        }
        let digest = Digest::of(&manifest);
        let url = self.transport.url(&self.path(&format!("manifests/{tag}")))?;
        let request = Request::new(Method::PUT).header(CONTENT_TYPE, MANIFEST).body(manifest);
        let answer = self.transport.send(url, &request).await?;
        let answer = self.expect(answer, StatusCode::CREATED, || self.reference.to_string())?;
        agrees(&answer, &digest)?;
        Ok(digest)
    }

    /// Looks for signatures of an artifact by one of these keys. What is no valid signature is only counted.
    ///
    /// # Errors
    ///
    /// A [`RegistryError`]: the registry cannot be used.
    pub async fn signatures(
        &self,
        digest: &Digest,
        keys: &[PublicKey],
    ) -> Result<Signatures, RegistryError> {
        let mut signatures = Signatures::default();
        let tag = format!("sha256-{}.sig", digest.hex());
        let simple = found(self.document(&tag, MAX_MANIFEST).await)?;
        let layers = simple.map(|document| manifest::parts(&document.bytes)).unwrap_or_default();
        let is_simple = |layer: &&Part| layer.media_type == signature::SIMPLE_SIGNING;
        for layer in layers.iter().filter(is_simple).take(MAX_SIGNATURES) {
            let payload = self.small(layer, signature::MAX_PAYLOAD).await?;
            let value = layer.annotations.get(signature::SIGNATURE);
            signatures.add(payload.zip(value).and_then(|(payload, value)| {
                signature::simply_signed(&payload, value, digest, keys)
            }));
        }
        let is_bundle = |kind: &str| kind.starts_with(signature::BUNDLE);
        let referrers = self.referrers(digest).await?;
        // An index without types was written by a registry that does not know them.
        let may_be = |part: &&Part| part.artifact_type.as_deref().is_none_or(is_bundle);
        for referrer in referrers.iter().filter(may_be).take(MAX_SIGNATURES) {
            let Some(blob) = referrer.blob(MAX_MANIFEST) else { continue };
            let document = found(self.document(&blob.digest.to_string(), blob.size).await)?;
            // The digest of the answer is compared, because the name in the request is only a wish.
            let document = document.filter(|document| document.digest == blob.digest);
            let layers = document.map(|document| manifest::parts(&document.bytes));
            let layers = layers.unwrap_or_default();
            let Some(layer) = layers.iter().find(|layer| is_bundle(&layer.media_type)) else {
                continue;
            };
            let bundle = self.small(layer, signature::MAX_BUNDLE).await?;
            signatures
                .add(bundle.and_then(|bundle| signature::signed_by_bundle(&bundle, digest, keys)));
        }
        Ok(signatures)
    }

    /// Returns what refers to an artifact: by the API of the registry, or by the tag that takes its place in older ones.
    async fn referrers(&self, digest: &Digest) -> Result<Vec<Part>, RegistryError> {
        let url = self.transport.url(&self.path(&format!("referrers/{digest}")))?;
        let answer = self.transport.send(url, &Request::new(Method::GET)).await?;
        let index = match answer.status() {
            StatusCode::OK => found(self.transport.body(answer, "the index", MAX_MANIFEST).await)?,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::BAD_REQUEST => {
                let tag = format!("sha256-{}", digest.hex());
                found(self.document(&tag, MAX_MANIFEST).await)?.map(|document| document.bytes)
            }
            status => return Err(self.transport.unexpected(status, "")),
        };
        Ok(index.map(|index| manifest::parts(&index)).unwrap_or_default())
    }

    /// Fetches a part of a signature; `None` if it is not what its descriptor says.
    async fn small(&self, part: &Part, most: u64) -> Result<Option<Vec<u8>>, RegistryError> {
        let Some(layer) = part.blob(most) else { return Ok(None) };
        found(self.fetch(&Resolved { digest: layer.digest.clone(), layer }).await)
    }

    async fn put_blob(&self, bytes: &[u8]) -> Result<(), RegistryError> {
        let digest = Digest::of(bytes);
        let url = self.transport.url(&self.path(&format!("blobs/{digest}")))?;
        let there = self.transport.send(url, &Request::new(Method::HEAD)).await?.status();
        match there {
            StatusCode::OK => return Ok(()),
            StatusCode::NOT_FOUND => {}
            status => return Err(self.transport.unexpected(status, "")),
        }
        let name = || format!("place for {}", self.reference.repository());
        let begin = self.transport.url(&self.path("blobs/uploads/"))?;
        let answer = self.transport.send(begin.clone(), &Request::new(Method::POST)).await?;
        let answer = self.expect(answer, StatusCode::ACCEPTED, name)?;
        let mut url = self.transport.upload(&begin, &answer)?;
        url.query_pairs_mut().append_pair("digest", &digest.to_string());
        let request = Request::new(Method::PUT)
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(bytes.to_vec());
        let answer = self.transport.send(url, &request).await?;
        self.expect(answer, StatusCode::CREATED, name)?;
        Ok(())
    }

    /// Fetches the manifest in an index. An index in an index is refused.
    async fn of_index(&self, blob: &Blob) -> Result<Blob, RegistryError> {
        const WHAT: &str = "the manifest in the index";
        let inner = self.document(&blob.digest.to_string(), blob.size.min(MAX_MANIFEST)).await?;
        check(WHAT, blob, &inner.bytes, &inner.digest)?;
        match Document::read(&inner.bytes, &inner.content_type)? {
            Document::Manifest(layer) => Ok(layer),
            Document::Index(_) => {
                Err(RegistryError::Layout(format!("an {INDEX} leads to another one")))
            }
        }
    }

    async fn document(&self, version: &str, most: u64) -> Result<Fetched, RegistryError> {
        let url = self.transport.url(&self.path(&format!("manifests/{version}")))?;
        let request = Request::new(Method::GET).header(ACCEPT, DOCUMENTS);
        let answer = self.transport.send(url, &request).await?;
        let answer = self.expect(answer, StatusCode::OK, || self.reference.to_string())?;
        let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let claimed = claimed(&answer);
        let bytes = self.transport.body(answer, "the manifest", most).await?;
        let digest = Digest::of(&bytes);
        if let Some(claimed) = claimed.filter(|claimed| *claimed != digest.to_string()) {
            let found = digest.to_string();
            return Err(RegistryError::Differs { what: "the manifest", expected: claimed, found });
        }
        Ok(Fetched { bytes, digest, content_type })
    }

    fn path(&self, rest: &str) -> String {
        format!("/v2/{}/{rest}", self.reference.repository())
    }

    fn expect(
        &self,
        answer: Response,
        status: StatusCode,
        what: impl FnOnce() -> String,
    ) -> Result<Response, RegistryError> {
        if answer.status() == status {
            return Ok(answer);
        }
        Err(self.transport.unexpected(answer.status(), what()))
    }
}

/// Returns `None` for what is not there or is not what it should be. Everybody who can write to a registry can put such things
/// beside a component, and they must not keep its approval away.
fn found<T>(result: Result<T, RegistryError>) -> Result<Option<T>, RegistryError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(
            RegistryError::Missing { .. }
            | RegistryError::TooLarge { .. }
            | RegistryError::Differs { .. }
            | RegistryError::Layout(_),
        ) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Compares bytes with the size and the digest that were promised.
fn check(
    what: &'static str,
    promised: &Blob,
    bytes: &[u8],
    digest: &Digest,
) -> Result<(), RegistryError> {
    if bytes.len() as u64 != promised.size {
        let (expected, found) =
            (format!("{} bytes", promised.size), format!("{} bytes", bytes.len()));
        return Err(RegistryError::Differs { what, expected, found });
    }
    if *digest != promised.digest {
        return Err(RegistryError::digest(what, &promised.digest, digest));
    }
    Ok(())
}

/// Returns the digest that the registry claims for a document, if it is one that is compared.
fn claimed(answer: &Response) -> Option<String> {
    let text = answer.headers().get(CONTENT_DIGEST)?.to_str().ok()?;
    let digest: Digest = text.parse().ok()?;
    Some(digest.to_string())
}

fn agrees(answer: &Response, digest: &Digest) -> Result<(), RegistryError> {
    match claimed(answer).and_then(|text| text.parse().ok()) {
        Some(claimed) if claimed != *digest => {
            Err(RegistryError::digest("the stored manifest", digest, &claimed))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
