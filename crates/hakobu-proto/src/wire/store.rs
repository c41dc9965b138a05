//! The wire format of a store that an agent opens, and of the requests that it was sent.

use std::time::Duration;

use super::bounded::BoundedBytes;
use super::mirror::mirror;

mirror! {
    struct StoreName of hakobu_core::store_name::StoreName {
        scheme: String,
        name: BoundedBytes,
    }
}

mirror! {
    struct StoreSettings of hakobu_core::store_settings::StoreSettings {
        endpoint: Option<String>,
        region: Option<String>,
        profile: Option<String>,
        no_sign_request: bool,
        request_payer: bool,
        addressing: BucketAddressing,
        storage_class: Option<String>,
        encryption: Option<ServerEncryption>,
        acl: Option<String>,
        content_type: Option<String>,
        retry_for: Option<Duration>,
    } without {
        // A machine that opens a store has its own.
        credentials
    }
}

mirror! {
    enum BucketAddressing of hakobu_core::store_settings::BucketAddressing {
        Auto,
        Path,
        Virtual,
    }
}

mirror! {
    enum ServerEncryption of hakobu_core::store_settings::ServerEncryption {
        Aes256,
        Kms(key: Option<String>),
        DoubleKms(key: Option<String>),
    }
}

mirror! {
    struct RunRequests of hakobu_core::requests::RunRequests {
        source: RequestCounts,
        target: RequestCounts,
    }
}

mirror! {
    struct RequestCounts of hakobu_core::requests::RequestCounts {
        list: u64,
        head: u64,
        get: u64,
        put: u64,
        copy: u64,
        delete: u64,
        other: u64,
        retries: u64,
        sent_bytes: u64,
        received_bytes: u64,
        kept_digests: u64,
        unchecked: u64,
    }
}
