//! Tests of Azure Blob Storage, against Azurite and against a server that misbehaves.

mod blocks;
mod errors;
mod faults;
mod hostile;
mod requests;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use bytes::Bytes;
use hakobu_core::Result;
use hakobu_core::checksum::crc64;
use hakobu_core::extent::Extent;
use hakobu_endpoints::object::api::{
    Bucket, ListQuery, ListStart, ObjectApi, ObjectPage, ObjectProperties, PutCondition, PutObject,
    StoredObject,
};
use hakobu_endpoints::object::azure::{AzureContainer, AzureEnvironment, AzureSettings};
use hakobu_endpoints::object::http::HttpLimits;
use hakobu_endpoints::object::runtime::LaneRuntime;
use hakobu_testkit::http::ScriptedServer;
use hakobu_testkit::stores::StoreServer;

use super::read_all;

const CONTAINER: &str = "container";
const ACCOUNT: &str = "devstoreaccount1";

/// A lane of a container, with its runtime.
struct AzureTestLane {
    container: Arc<AzureContainer>,
    api: Box<dyn ObjectApi>,
    runtime: LaneRuntime,
}

fn environment(variables: &[(&str, &str)]) -> AzureEnvironment {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn settings(endpoint: &str) -> AzureSettings {
    AzureSettings {
        container: CONTAINER.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        environment: environment(&[("AZURE_STORAGE_KEY", "a2V5")]),
        limits: HttpLimits {
            stall: Duration::from_secs(30),
            retries: Duration::from_secs(20),
            ..HttpLimits::default()
        },
        ..AzureSettings::default()
    }
}

/// Returns the server of all tests that run now.
fn azurite() -> Arc<StoreServer> {
    static SHARED: Mutex<Weak<StoreServer>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(StoreServer::azurite().unwrap());
        *shared = Arc::downgrade(&server);
        server
    })
}

/// Makes a container, and returns the settings for it.
fn new_container(server: &StoreServer) -> AzureSettings {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let container = format!("{CONTAINER}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    server.make_bucket(&container).unwrap();
    let environment = environment(&[("AZURE_STORAGE_KEY", server.secret_key)]);
    AzureSettings { container, environment, ..settings(&server.endpoint) }
}

impl AzureTestLane {
    fn new(settings: AzureSettings) -> Self {
        let container = AzureContainer::open(settings).unwrap();
        let runtime = LaneRuntime::new().unwrap();
        let api = container.connect().unwrap();
        Self { container, api, runtime }
    }

    /// Opens a new container of a server.
    fn of(server: &StoreServer) -> Self {
        Self::new(new_container(server))
    }

    /// Opens a container behind a scripted server, with little patience.
    fn behind(server: &ScriptedServer) -> Self {
        Self::through(server, settings(""))
    }

    /// Opens a container through a scripted server, with little patience.
    fn through(server: &ScriptedServer, settings: AzureSettings) -> Self {
        let endpoint = Some(format!("{}/{ACCOUNT}", server.endpoint));
        Self::impatient(AzureSettings { endpoint, ..settings })
    }

    fn impatient(settings: AzureSettings) -> Self {
        let limits = HttpLimits {
            connect: Duration::from_secs(5),
            stall: Duration::from_millis(2000),
            retries: Duration::from_millis(6000),
            ..HttpLimits::default()
        };
        Self::new(AzureSettings { limits, ..settings })
    }

    fn put(&self, key: &str, content: &[u8]) -> Result<StoredObject> {
        self.put_with(key, content, &PutCondition::None, &[])
    }

    fn put_with(
        &self,
        key: &str,
        content: &[u8],
        condition: &PutCondition,
        metadata: &[(&str, &str)],
    ) -> Result<StoredObject> {
        let metadata = metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let properties = ObjectProperties { metadata: metadata.collect(), ..ObjectProperties::default() };
        let (content, crc64) = (vec![Bytes::copy_from_slice(content)], Some(crc64(content)));
        self.runtime.run(self.api.put(PutObject { key, content, properties: &properties, condition, crc64 }))
    }

    fn get(&self, key: &str, range: Option<Extent>) -> Result<Vec<u8>> {
        self.runtime.run(async {
            let body = self.api.get(key, range, None).await?;
            read_all(body).await
        })
    }

    fn page(&self, prefix: &str, delimiter: bool) -> Result<ObjectPage> {
        let start = ListStart::First;
        self.runtime.run(self.api.list(ListQuery { prefix, delimiter, start, until: None, entries: 5000 }))
    }
}
