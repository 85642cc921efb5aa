//! Addresses as they are printed: without the name and the password that a user may have written into them.

use reqwest::Url;

/// An address, or a text in the place of one, without name and password.
pub(crate) fn shown_address(text: &str) -> String {
    if let Ok(mut url) = Url::parse(text)
        && url.has_host()
    {
        if url.username().is_empty() && url.password().is_none() {
            return text.to_owned();
        }
        if url.set_password(None).is_ok() && url.set_username("").is_ok() {
            return url.into();
        }
    }
    // Of what is no address nothing tells where a password ends, but the last `@` is behind it.
    let Some((before, host)) = text.rsplit_once('@') else { return text.to_owned() };
    let scheme = before.find("://").map_or("", |end| &before[..end + 3]);
    format!("{scheme}{host}")
}

/// A message that quotes addresses, without their names and passwords.
pub(crate) fn shown_message(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(slashes) = rest.find("://") {
        let (scheme, after) = rest.split_at(slashes + 3);
        let end = after.find(|character: char| character.is_whitespace() || matches!(character, '"' | '\''));
        let (address, behind) = after.split_at(end.unwrap_or(after.len()));
        shown.push_str(scheme);
        shown.push_str(address.rsplit_once('@').map_or(address, |(_, host)| host));
        rest = behind;
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_not_shown() {
        for (address, shown) in [
            ("http://host/a@b", "http://host/a@b"),
            ("http://user:sekret@host:81/a?b", "http://host:81/a?b"),
            ("https://sekret@host/a", "https://host/a"),
            ("http:user:sekret@host/a", "http://host/a"),
            ("ftp://user:sekret@host/a", "ftp://host/a"),
            ("http://user:sek/ret@host:port/a", "http://host:port/a"),
            ("http://user:sekret@host:port/a", "http://host:port/a"),
            ("mailto:sekret@host", "host"),
            ("user:sekret@host/a", "host/a"),
            ("host/a", "host/a"),
        ] {
            assert_eq!(shown_address(address), shown, "{address}");
        }
        let message = "from = \"http://user:sekret@host/a\" or http://host/b\n  ^^^ http://sekret@c";
        assert_eq!(shown_message(message), "from = \"http://host/a\" or http://host/b\n  ^^^ http://c");
    }
}
