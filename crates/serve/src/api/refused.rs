//! Refusals, in the error format of OpenAI's interface.

use crate::engine::EngineError;
use crate::states::StatesError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use wgoose_runtime::{BatchError, RuntimeError};
use wgoose_session::SessionError;
use wgoose_session::one_line;
use wgoose_session::sampling::SamplerOptionsError;

/// `Retry-After` of a request that found the queue full, in seconds.
const RETRY_SECONDS: u64 = 1;

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) why: String,
    /// The field that is wrong.
    pub(crate) field: Option<String>,
}

impl Refused {
    /// A field is wrong.
    pub(crate) fn field(field: &str, why: impl std::fmt::Display) -> Self {
        Refused { status: StatusCode::BAD_REQUEST, why: format!("{field}: {why}"), field: Some(field.to_owned()) }
    }

    /// The request is wrong.
    pub(crate) fn wrong(why: impl Into<String>) -> Self {
        Refused::with(StatusCode::BAD_REQUEST, why)
    }

    pub(crate) fn with(status: StatusCode, why: impl Into<String>) -> Self {
        Refused { status, why: why.into(), field: None }
    }

    /// The error object.
    pub(crate) fn json(&self) -> Value {
        let (kind, code) = match self.status {
            StatusCode::UNAUTHORIZED => ("invalid_request_error", json!("invalid_api_key")),
            StatusCode::TOO_MANY_REQUESTS => ("rate_limit_error", json!("queue_full")),
            status if status.is_server_error() => ("server_error", Value::Null),
            _ => ("invalid_request_error", Value::Null),
        };
        json!({ "error": { "message": self.why, "type": kind, "param": self.field, "code": code } })
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = super::json(self.status, &self.json());
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
        }
        response
    }
}

impl From<SessionError> for Refused {
    fn from(error: SessionError) -> Self {
        let why = one_line(&error);
        let field = match &error {
            SessionError::SamplerOptions(error) => Some(match error {
                SamplerOptionsError::Temperature(_) => "temperature".to_owned(),
                SamplerOptionsError::TopP(_) => "top_p".to_owned(),
                SamplerOptionsError::MinP(_) => "min_p".to_owned(),
                SamplerOptionsError::Repetition(_) => "repetition_penalty".to_owned(),
                SamplerOptionsError::Typical(_) => "typical_p".to_owned(),
                SamplerOptionsError::Penalty(name, _) => format!("{name}_penalty"),
                SamplerOptionsError::PenaltyDecay(_) => "penalty_decay".to_owned(),
                SamplerOptionsError::Bias(..) | SamplerOptionsError::BiasToken { .. } => "logit_bias".to_owned(),
            }),
            SessionError::Sample(_) => Some("logit_bias".to_owned()),
            SessionError::EmptyPrompt | SessionError::Runtime(RuntimeError::Batch(BatchError::Token { .. })) => {
                Some("prompt".to_owned())
            }
            _ => None,
        };
        let status = match error {
            SessionError::NoRoom(_) => StatusCode::TOO_MANY_REQUESTS,
            SessionError::NoEmbeddingHead { .. } | SessionError::EndInText { .. } => StatusCode::BAD_REQUEST,
            SessionError::Runtime(RuntimeError::Batch(BatchError::NoOutputHead | BatchError::Token { .. })) => {
                StatusCode::BAD_REQUEST
            }
            _ if field.is_some() => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refused { status, why, field }
    }
}

impl From<StatesError> for Refused {
    fn from(error: StatesError) -> Self {
        let status = match &error {
            StatesError::Name(_) | StatesError::Refused(_) => StatusCode::BAD_REQUEST,
            StatesError::Unknown(_) => StatusCode::NOT_FOUND,
            StatesError::Busy(_) | StatesError::Taken(_) => StatusCode::CONFLICT,
            StatesError::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
            StatesError::Io { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refused::with(status, one_line(&error))
    }
}

impl From<EngineError> for Refused {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Session(error) => error.into(),
            EngineError::Ended => Refused::with(StatusCode::SERVICE_UNAVAILABLE, "the server is ending"),
        }
    }
}
