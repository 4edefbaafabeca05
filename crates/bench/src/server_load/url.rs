//! The address of a server.

use std::fmt;
use std::str::FromStr;

/// `http://HOST[:PORT]`, with or without `/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// A text that is no such address.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not the address of a server: give http://HOST:PORT (https is not supported)")]
pub struct UrlError(String);

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let wrong = || UrlError(text.to_owned());
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
        let authority = rest.strip_suffix("/v1").unwrap_or(rest);
        // The colons of an IPv6 address are in brackets.
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (authority, 80),
        };
        match host.is_empty() || host.contains('/') {
            true => Err(wrong()),
            false => Ok(ServerUrl { host: host.to_owned(), port }),
        }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let parsed = |text: &str| text.parse::<ServerUrl>().map(|url| url.to_string()).ok();
        assert_eq!(parsed("http://127.0.0.1:8080/v1").as_deref(), Some("http://127.0.0.1:8080"));
        assert_eq!(parsed("http://gpu/").as_deref(), Some("http://gpu:80"));
        assert_eq!(parsed("http://[::1]:8080").as_deref(), Some("http://[::1]:8080"));
        for wrong in ["https://a", "a:80", "http://", "http://a:x", "http://a/b"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
