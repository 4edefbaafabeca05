//! Access: API keys, hosts and origins.

use crate::api::{Refused, Served};
use crate::{ServeError, ServeOptions};
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;
use tower_http::cors::{AllowOrigin, CorsLayer};

/// Paths that need no API key.
const WITHOUT_KEY: [&str; 2] = ["/", "/health"];

/// Headers of rwkv_lightning's interface that pages may send.
const STATE_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("x-rwkv-state-id"), HeaderName::from_static("x-rwkv-session-id")];

/// Names of the loopback address.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Refuses requests without access.
pub(crate) async fn check(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    match check_host(&served.options, request.headers()).and_then(|()| check_key(&served.options, &request)) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

/// Refuses unknown hosts (DNS rebinding) and origins (cross-site requests).
fn check_host(options: &ServeOptions, headers: &HeaderMap) -> Result<(), Refused> {
    let forbidden = |why: String| Refused::with(StatusCode::FORBIDDEN, why);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).and_then(host_of);
    if !answers_any(options) {
        let host = host.as_deref().unwrap_or_default();
        let names = LOOPBACK.into_iter().chain(options.allowed_hosts.iter().map(String::as_str));
        if !names.chain([options.host.as_str()]).any(|name| name.eq_ignore_ascii_case(host)) {
            return Err(forbidden(format!("the host '{host}' is not served: --allow-host allows it")));
        }
    }
    let Some(origin) = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()) else { return Ok(()) };
    let is_allowed = options.cors.iter().any(|allowed| allowed == "*" || allowed == origin);
    let authority = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_own = origin.split_once("://").is_some_and(|(_, of_page)| Some(of_page) == authority);
    if is_allowed || is_own {
        return Ok(());
    }
    Err(forbidden(format!("pages of {origin} may not ask: --cors {origin} allows it")))
}

/// Whether any host name is accepted: `*`, or a server for other machines without a list of names.
fn answers_any(options: &ServeOptions) -> bool {
    let is_loopback = LOOPBACK.contains(&options.host.as_str())
        || options.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    options.allowed_hosts.iter().any(|name| name == "*") || (!is_loopback && options.allowed_hosts.is_empty())
}

/// The host without the port.
fn host_of(authority: &str) -> Option<String> {
    authority.parse::<Authority>().ok().map(|authority| authority.host().to_owned())
}

/// Refuses requests without one of the keys, if there are any. The page, which asks for a key, and `/health` need none.
fn check_key(options: &ServeOptions, request: &Request) -> Result<(), Refused> {
    if options.api_keys.is_empty() || WITHOUT_KEY.contains(&request.uri().path()) || request.method() == Method::OPTIONS
    {
        return Ok(());
    }
    let given =
        request.headers().get(header::AUTHORIZATION).and_then(|given| given.as_bytes().strip_prefix(b"Bearer "));
    let given = given.unwrap_or_default();
    // Every key is compared, so that the time does not depend on the key.
    let fits = |key: &String| constant_time_eq::constant_time_eq(key.as_bytes(), given);
    match options.api_keys.iter().filter(|key| fits(key)).count() {
        0 => Err(Refused::with(StatusCode::UNAUTHORIZED, "the API key is missing or wrong: Authorization: Bearer KEY")),
        _ => Ok(()),
    }
}

/// The CORS headers of answers.
///
/// # Errors
/// An origin is no value of a header.
pub(crate) fn cors(options: &ServeOptions) -> Result<Option<CorsLayer>, ServeError> {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([[header::CONTENT_TYPE, header::AUTHORIZATION], STATE_HEADERS].concat());
    match &options.cors[..] {
        [] => Ok(None),
        origins if origins.iter().any(|origin| origin == "*") => Ok(Some(layer.allow_origin(AllowOrigin::any()))),
        origins => {
            let value = |origin: &String| {
                HeaderValue::from_str(origin)
                    .map_err(|_| ServeError::Header { option: "--cors", value: origin.clone() })
            };
            let origins = origins.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            Ok(Some(layer.allow_origin(origins)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        origin.into_iter().for_each(|origin| drop(headers.insert(header::ORIGIN, origin.parse().unwrap())));
        headers
    }

    #[test]
    fn hosts_and_origins_are_checked() {
        let allows = |options: &ServeOptions, host: &str, origin| check_host(options, &headers(host, origin)).is_ok();
        let local = ServeOptions::default();
        assert!(allows(&local, "localhost:8080", None) && allows(&local, "127.0.0.1", None));
        assert!(allows(&local, "[::1]:80", None) && allows(&local, "LOCALHOST", None));
        assert!(!allows(&local, "evil.example", None), "DNS rebinding");
        assert!(!allows(&local, "127.0.0.1", Some("http://evil.example")), "a cross-site request");
        assert!(!allows(&local, "127.0.0.1", Some("null")));
        assert!(!allows(&local, "127.0.0.1:8080", Some("http://127.0.0.1:3000")), "another server's page");
        assert!(allows(&local, "127.0.0.1:8080", Some("http://127.0.0.1:8080")), "same origin");
        let cors = ServeOptions { cors: vec!["https://a.example".to_owned()], ..local.clone() };
        assert!(allows(&cors, "localhost", Some("https://a.example")));
        assert!(!allows(&cors, "localhost", Some("https://b.example")));
        let open = ServeOptions { host: "0.0.0.0".to_owned(), ..local };
        assert!(allows(&open, "gpu.lan", None) && !allows(&open, "gpu.lan", Some("https://a.example")));
        let named = ServeOptions { allowed_hosts: vec!["gpu.lan".to_owned()], ..open };
        assert!(allows(&named, "gpu.lan", None) && !allows(&named, "other.lan", None));
    }
}
