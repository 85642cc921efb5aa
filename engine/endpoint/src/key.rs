//! A server's key, in a type that cannot be printed, written or compared.
//!
//! The text leaves the type in one place: the header of a request. It is overwritten when the key is dropped. Texts
//! of servers may repeat a key (or most of it); [`ApiKey::redact_text`] takes it out.

use crate::EndpointError;
use crate::dialect::KeyHeader;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

/// The letters at a key's beginning by which a text's word counts as the key. Servers mask the middle of a key.
const TELLTALE_LETTERS: usize = 7;

/// The key of a server. `Debug` and `Display` print `***`.
#[derive(Clone)]
pub struct ApiKey(Zeroizing<String>);

impl ApiKey {
    /// A key from its text, without white space around it. `origin` names its source in messages.
    ///
    /// # Errors
    /// [`EndpointError::KeyText`].
    pub fn from_text(text: &str, origin: &str) -> Result<Self, EndpointError> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(EndpointError::KeyText { origin: origin.to_owned() });
        }
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    /// The key of a file: its whole text, without white space around it.
    ///
    /// # Errors
    /// [`EndpointError::KeyFile`], [`EndpointError::KeyText`].
    pub fn from_file(path: &Path) -> Result<Self, EndpointError> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| EndpointError::KeyFile { path: path.to_owned(), source })?;
        Self::from_text(&Zeroizing::new(text), &path.display().to_string())
    }

    /// The key of an environment variable; `None` if it is unset or empty.
    ///
    /// # Errors
    /// [`EndpointError::KeyText`].
    pub fn from_variable(variable: &str) -> Result<Option<Self>, EndpointError> {
        match std::env::var(variable) {
            Ok(text) if !text.trim().is_empty() => Self::from_text(&Zeroizing::new(text), variable).map(Some),
            Err(std::env::VarError::NotUnicode(_)) => Err(EndpointError::KeyText { origin: variable.to_owned() }),
            _ => Ok(None),
        }
    }

    /// The header with the key. Logs of the HTTP client do not show its value.
    pub(crate) fn header(&self, form: KeyHeader) -> Option<(HeaderName, HeaderValue)> {
        let (name, text) = match form {
            KeyHeader::Bearer => (AUTHORIZATION, Zeroizing::new(format!("Bearer {}", *self.0))),
            KeyHeader::ApiKey => (HeaderName::from_static("api-key"), self.0.clone()),
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }

    /// The text without the key: each word that holds it, or begins like it, becomes `***`.
    pub fn redact_text(&self, text: &str) -> String {
        let text = text.replace(self.0.as_str(), "***");
        let Some(telltale) = self.0.get(..TELLTALE_LETTERS) else { return text };
        if !text.contains(telltale) {
            return text;
        }
        let words = text.split_inclusive(char::is_whitespace);
        words.map(|word| if word.contains(telltale) { "*** " } else { word }).collect()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let key = ApiKey::from_text(" sk-abcdef0123456789\n", "TEST").unwrap();
        assert_eq!(format!("{key} {key:?} {key:#?}"), "*** *** ***");
        let (name, value) = key.header(KeyHeader::Bearer).unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("authorization", "Bearer sk-abcdef0123456789"));
        assert_eq!(format!("{value:?}"), "Sensitive");
        let (name, value) = key.header(KeyHeader::ApiKey).unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("api-key", "sk-abcdef0123456789"));
    }

    #[test]
    fn a_servers_text_loses_the_key() {
        let key = ApiKey::from_text("sk-abcdef0123456789", "TEST").unwrap();
        assert_eq!(key.redact_text("bad key \"sk-abcdef0123456789\"!"), "bad key \"***\"!");
        assert_eq!(key.redact_text("wrong: sk-abcd****6789. Find yours"), "wrong: *** Find yours");
        assert_eq!(key.redact_text("nothing here"), "nothing here");
    }

    #[test]
    fn texts_that_no_header_carries_are_refused() {
        for text in ["", "  ", "a b", "kéy", "a\u{7f}"] {
            let error = ApiKey::from_text(text, "MY_KEY").unwrap_err().to_string();
            assert!(error.contains("MY_KEY") && (text.trim().is_empty() || !error.contains(text)), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let error = ApiKey::from_file(&folder.path().join("none")).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
        std::fs::write(folder.path().join("key"), "abc\n").unwrap();
        assert_eq!(*ApiKey::from_file(&folder.path().join("key")).unwrap().0, "abc");
    }
}
