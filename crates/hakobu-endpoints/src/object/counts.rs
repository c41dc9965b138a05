//! Counts of requests by kind, kept by all lanes of a bucket, and the part of them that belongs to one run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::api::{Bucket, RequestCounts};

/// A kind of request, as stores charge for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    List,
    Head,
    Get,
    Put,
    Copy,
    Delete,
}

/// The counters behind [`RequestCounts`].
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    kinds: [AtomicU64; 6],
    retries: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl RequestCounters {
    /// Counts a request that is about to be sent.
    pub(crate) fn add(&self, kind: RequestKind, is_retry: bool) {
        self.kinds[kind as usize].fetch_add(1, Ordering::Relaxed);
        if is_retry {
            self.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes back a request that did not leave this machine.
    pub(crate) fn take_back(&self, kind: RequestKind, is_retry: bool) {
        self.kinds[kind as usize].fetch_sub(1, Ordering::Relaxed);
        if is_retry {
            self.retries.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_sent(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> RequestCounts {
        let of = |kind: RequestKind| self.kinds[kind as usize].load(Ordering::Relaxed);
        RequestCounts {
            list: of(RequestKind::List),
            head: of(RequestKind::Head),
            get: of(RequestKind::Get),
            put: of(RequestKind::Put),
            copy: of(RequestKind::Copy),
            delete: of(RequestKind::Delete),
            other: 0,
            retries: self.retries.load(Ordering::Relaxed),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            kept_digests: 0,
            unchecked: 0,
        }
    }
}

/// The requests of a bucket that its endpoints have reported so far. Runs that follow each other may use one bucket.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedRequests(Arc<Mutex<RequestCounts>>);

impl ReportedRequests {
    fn reported(&self) -> MutexGuard<'_, RequestCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the requests of the endpoint that is opened now: all that no earlier one has reported.
    pub(crate) fn begin(&self) -> EndpointRequests {
        EndpointRequests { before: *self.reported(), all: self.clone() }
    }
}

/// The requests of one endpoint of a bucket.
#[derive(Debug, Default)]
pub(crate) struct EndpointRequests {
    before: RequestCounts,
    all: ReportedRequests,
}

impl EndpointRequests {
    /// Returns them, and records that they have been reported.
    pub(crate) fn report(&self, bucket: &dyn Bucket) -> RequestCounts {
        let now = bucket.requests();
        *self.all.reported() = now;
        now.since(&self.before)
    }
}
