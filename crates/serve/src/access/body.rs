//! The body of an answer, which records how many bytes were sent and whether all were.

use super::{End, Record};
use axum::body::{Body, Bytes};
use http_body::{Body as _, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(super) struct RecordedBody {
    body: Body,
    record: Arc<Record>,
    bytes: u64,
    is_complete: bool,
}

impl RecordedBody {
    pub(super) fn new(body: Body, record: Arc<Record>) -> Self {
        // Of such a body nothing is read.
        let is_complete = body.is_end_stream() || record.is_head();
        RecordedBody { body, record, bytes: 0, is_complete }
    }
}

impl http_body::Body for RecordedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(None) => self.is_complete = true,
            Poll::Ready(Some(Ok(frame))) => {
                self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                // A body of known length is not read beyond its last byte.
                self.is_complete = self.body.is_end_stream();
            }
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RecordedBody {
    fn drop(&mut self) {
        match self.is_complete {
            true => self.record.ended(self.bytes, End::Complete),
            false => self.record.broke_off(self.bytes),
        }
    }
}
