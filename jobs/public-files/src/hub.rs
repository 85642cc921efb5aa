//! A model's repository on the Hugging Face hub: its files, as the hub's API lists them.
//!
//! `HF_ENDPOINT` names another hub or a mirror, and `HF_TOKEN` has the token of an account, as for every program of the
//! hub. The token goes to the hub alone: a redirect to another host does not carry it.

use crate::address::shown_address;
use crate::error::FetchError;
use reqwest::{Client, Url};
use serde::Deserialize;

/// The hub, unless the environment names another.
const HUB: &str = "https://huggingface.co";

/// A repository.
pub(crate) struct HubRepository {
    /// The hub's address.
    hub: Url,
    name: String,
    token: Option<String>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubFile {
    /// Its place in the repository.
    pub(crate) name: String,
    /// Its address, at the listed revision.
    pub(crate) url: String,
    /// Its size, if the hub says.
    pub(crate) size: Option<u64>,
    /// Its SHA-256, of large files alone.
    pub(crate) sha256: Option<String>,
}

/// The hub's description of a repository.
#[derive(Deserialize)]
struct RepositoryDescription {
    sha: String,
    siblings: Vec<DescribedFile>,
}

#[derive(Deserialize)]
struct DescribedFile {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<LargeFile>,
}

#[derive(Deserialize)]
struct LargeFile {
    sha256: String,
}

impl HubRepository {
    /// The repository ORG/NAME on the environment's hub.
    pub(crate) fn of_environment(name: &str) -> Result<Self, FetchError> {
        let set = |name: &str| {
            let value = std::env::var_os(name)?.to_string_lossy().trim().to_owned();
            Some(value).filter(|value| !value.is_empty())
        };
        let address = set("HF_ENDPOINT").unwrap_or_else(|| HUB.to_owned());
        let hub = Url::parse(&address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let unusable = || FetchError::Address { name: "HF_ENDPOINT".to_owned(), url: shown_address(&address) };
        let hub = hub.ok_or_else(unusable)?;
        let token = set("HF_TOKEN");
        if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(FetchError::Token);
        }
        Ok(Self { hub, name: name.to_owned(), token })
    }

    pub(crate) fn address(&self) -> &Url {
        &self.hub
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The files that hopeval reads, at the present revision of the branch `main`.
    pub(crate) async fn list_files(&self, client: &Client) -> Result<Vec<HubFile>, FetchError> {
        let url = format!("{}/api/models/{}?blobs=true", self.root(), self.name);
        let mut request = client.get(&url);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.map_err(|error| FetchError::of_request(&url, error))?;
        if !response.status().is_success() {
            return Err(FetchError::of_status(shown_address(&url), response.status()));
        }
        let body = response.bytes().await.map_err(|error| FetchError::of_request(&url, error))?;
        let other = |source| FetchError::Repository { url: shown_address(&url), source };
        Ok(self.wanted_files(serde_json::from_slice(&body).map_err(other)?))
    }

    /// The listed files that hopeval reads. They lie at the top of the repository, so no name leads out of it.
    fn wanted_files(&self, described: RepositoryDescription) -> Vec<HubFile> {
        let RepositoryDescription { sha, siblings } = described;
        let has_safetensors =
            siblings.iter().any(|file| is_top(&file.rfilename) && file.rfilename.ends_with(".safetensors"));
        let wanted = siblings.into_iter().filter(|file| is_wanted(&file.rfilename, has_safetensors));
        let file = |DescribedFile { rfilename, size, lfs }| {
            let url = format!("{}/{}/resolve/{sha}/{rfilename}", self.root(), self.name);
            HubFile { url, name: rfilename, size, sha256: lfs.map(|lfs| lfs.sha256) }
        };
        wanted.map(file).collect()
    }

    fn root(&self) -> &str {
        self.hub.as_str().trim_end_matches('/')
    }
}

/// Whether a file lies at the top of its repository.
fn is_top(name: &str) -> bool {
    !name.contains('/')
}

/// Whether hopeval reads a file: configuration, tokenizer, and the weights in one format, safetensors first.
fn is_wanted(name: &str, has_safetensors: bool) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_read = match ending {
        "json" | "txt" | "model" | "jinja" | "safetensors" => true,
        "bin" => !has_safetensors,
        _ => false,
    };
    is_top(name) && is_read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> HubRepository {
        HubRepository { hub: Url::parse("http://hub/").unwrap(), name: "org/name".to_owned(), token: None }
    }

    fn listed(files: &[&str]) -> Vec<HubFile> {
        let file = |name: &&str| DescribedFile { rfilename: (*name).to_owned(), size: Some(1), lfs: None };
        let siblings = files.iter().map(file).collect();
        repository().wanted_files(RepositoryDescription { sha: "c0".to_owned(), siblings })
    }

    #[test]
    fn weights_come_in_one_format() {
        let names = |files: &[&str]| -> Vec<String> { listed(files).into_iter().map(|file| file.name).collect() };
        let others = [
            "tf_model.h5",
            "flax_model.msgpack",
            "onnx/model.json",
            "onnx/model.safetensors",
            "README.md",
            ".gitattributes",
        ];
        let all = [&["config.json", "pytorch_model.bin", "spiece.model"][..], &others].concat();
        assert_eq!(names(&all), ["config.json", "pytorch_model.bin", "spiece.model"]);
        assert_eq!(
            names(&["pytorch_model.bin", "model.safetensors", "merges.txt"]),
            ["model.safetensors", "merges.txt"]
        );
    }

    #[test]
    fn files_are_those_of_the_revision_and_stay_below_it() {
        let file = listed(&["config.json"]).remove(0);
        assert_eq!(file.url, "http://hub/org/name/resolve/c0/config.json");
        assert_eq!(listed(&["..", "../a.json", "/a.json"]), []);
    }
}
