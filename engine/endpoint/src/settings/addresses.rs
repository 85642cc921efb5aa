//! The addresses of an endpoint's replicas.

use crate::EndpointError;
use reqwest::Url;

/// The variable with the address, where the settings have none.
pub const URL_VARIABLE: &str = "OPENAI_BASE_URL";

/// The address without any setting.
const OPENAI: &str = "https://api.openai.com/v1";

/// The addresses of the settings, else the environment's, else OpenAI's.
pub(super) fn resolve_addresses(settings: &[String], variable: Option<String>) -> Result<Vec<Url>, EndpointError> {
    if settings.is_empty() {
        return match variable {
            Some(text) => Ok(vec![parse_address(URL_VARIABLE, &text)?]),
            None => Ok(vec![parse_address("base_url", OPENAI)?]),
        };
    }
    let urls = settings.iter().map(|text| parse_address("base_url", text)).collect::<Result<Vec<_>, _>>()?;
    for (place, url) in urls.iter().enumerate() {
        if urls[..place].contains(url) {
            return Err(EndpointError::setting("base_url", format!("{url} twice"), "each replica once"));
        }
    }
    Ok(urls)
}

/// Whether OpenAI's key may go there without being named.
pub(super) fn takes_openai_keys(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    url.scheme() == "https" && (host == "api.openai.com" || host.ends_with(".openai.azure.com"))
}

/// An address with a scheme and a host. Messages do not repeat what may be a password.
fn parse_address(key: &str, text: &str) -> Result<Url, EndpointError> {
    let wrong = |what: &str| {
        let end = text.find(['?', '#']);
        let shown = end.map_or(text.to_owned(), |end| format!("{}…", &text[..=end]));
        let shown = shown.rsplit_once('@').map_or(shown.clone(), |(_, rest)| format!("…@{rest}"));
        let allowed = "http://HOST/v1 and https://HOST/v1, with :PORT where it is another than usual";
        EndpointError::setting(key, format!("`{shown}`: {what}"), allowed)
    };
    let mut url = Url::parse(text.trim()).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it does not begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("it has a user or a password; a key belongs into `key_env` or `key_file`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it goes on with a query or a fragment"));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_before_the_environment() {
        let one = |settings: &[&str], variable: Option<&str>| {
            let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
            resolve_addresses(&settings, variable.map(str::to_owned)).map(|urls| urls[0].to_string())
        };
        assert_eq!(one(&[], None).unwrap(), "https://api.openai.com/v1");
        assert_eq!(one(&[], Some("http://a:1/v1/")).unwrap(), "http://a:1/v1");
        assert_eq!(one(&["http://b"], Some("http://a")).unwrap(), "http://b/");
        assert!(one(&[], Some("nonsense")).unwrap_err().to_string().starts_with("`OPENAI_BASE_URL` is"));
        for text in [
            "",
            "localhost:8000",
            "ftp://a",
            "http://a?b",
            "http://u:hunter2@a",
            "http://a/v1?key=b@hunter2",
            "http://",
        ] {
            let error = one(&[text], None).unwrap_err().to_string();
            assert!(error.starts_with("`base_url` is") && !error.contains("hunter2"), "{error}");
        }
        assert!(one(&["http://a/v1", "http://a/v1/"], None).is_err());
    }

    #[test]
    fn openais_key_goes_to_openai() {
        for (url, goes) in [
            ("https://api.openai.com/v1", true),
            ("https://mine.openai.azure.com/openai/v1", true),
            ("http://api.openai.com/v1", false),
            ("https://api.openai.com.example.org/v1", false),
            ("http://localhost:8000/v1", false),
        ] {
            assert_eq!(takes_openai_keys(&Url::parse(url).unwrap()), goes, "{url}");
        }
    }
}
