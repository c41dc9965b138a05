//! Requests that succeed, against Azurite.

use bytes::Bytes;
use hakobu_core::extent::Extent;
use hakobu_core::{ErrorKind, Result};
use hakobu_endpoints::object::api::{
    Bucket, CopyObject, CopySource, ListCursor, ListQuery, ListStart, ObjectProperties, ObjectVersion,
    PutCondition, PutObject, StoredObject,
};
use hakobu_endpoints::object::azure::{AzureNewObjects, AzureSettings};
use hakobu_testkit::stores::StoreServer;

use super::super::{assert_names, noise};
use super::{AzureTestLane, azurite, environment, new_container, settings};

#[test]
fn an_object_returns_as_it_was_sent() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    let content = noise(600_000);
    for (key, content) in [("empty", &b""[..]), ("a b/c+d=é&?#%", b"text"), ("large", &content)] {
        let metadata = [("mtime", "2026-01-02T03:04:05Z"), ("hakobu_blake3", "x/1")];
        let stored = lane.put_with(key, content, &PutCondition::None, &metadata).unwrap();
        // Azurite checks it, and does not return the checksum as Azure does.
        assert!(stored.version.etag.is_some(), "{key}");
        assert_eq!(lane.get(key, None).unwrap(), content, "{key}");
        let head = lane.runtime.run(lane.api.head(key)).unwrap().unwrap();
        assert_eq!((head.size_bytes, &head.version), (content.len() as u64, &stored.version), "{key}");
        for (name, value) in metadata {
            assert!(
                head.metadata.contains(&(name.to_owned(), value.to_owned())),
                "{key} {:?}",
                head.metadata
            );
        }
    }
    let range = Extent { offset: 300_000, length: 1000 };
    assert_eq!(lane.get("large", Some(range)).unwrap(), content[300_000..301_000]);
    let beyond = Extent { offset: 599_990, length: 100 };
    assert_eq!(lane.get("large", Some(beyond)).unwrap(), content[599_990..]);
    let counts = lane.container.requests();
    assert_eq!((counts.put, counts.get, counts.head, counts.retries), (3, 5, 3, 0));
}

#[test]
fn content_with_another_checksum_is_refused() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    let (properties, condition) = (ObjectProperties::default(), &PutCondition::None);
    let (key, content, properties) = ("a", vec![Bytes::from_static(b"content")], &properties);
    let put = PutObject { key, content, properties, condition, crc64: Some(7) };
    let error = lane.runtime.run(lane.api.put(put)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    assert_eq!(lane.container.requests().retries, 1);
    assert_eq!(lane.page("", false).unwrap().objects.len(), 0);
}

#[test]
fn listings_show_attributes_and_directories() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    for key in ["d/a", "d/b/c", "d-e", "x/y"] {
        lane.put_with(key, b"12345", &PutCondition::None, &[("mtime", "M"), ("k", "&<>\"' v")]).unwrap();
    }
    for key in ["d/", "d/empty/"] {
        lane.put_with(key, b"", &PutCondition::None, &[("hdi_isfolder", "true")]).unwrap();
    }
    let page = lane.page("d", false).unwrap();
    let mut keys: Vec<&str> = page.objects.iter().map(|object| object.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["d-e", "d/", "d/a", "d/b/c", "d/empty/"]);
    let object = page.objects.iter().find(|object| object.key == "d/a").unwrap();
    let metadata = object.metadata.as_ref().unwrap();
    assert!(metadata.contains(&("k".to_owned(), "&<>\"' v".to_owned())), "{metadata:?}");
    assert_eq!(object.size_bytes, 5);
    let head = lane.runtime.run(lane.api.head("d/a")).unwrap().unwrap();
    assert_eq!((&object.version, object.uploaded), (&head.version, head.uploaded));
    let page = lane.page("d/", true).unwrap();
    let mut keys: Vec<&str> = page.objects.iter().map(|object| object.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!((keys, page.prefixes), (vec!["d/a", "d/empty/"], vec!["d/b/".to_owned()]));
    // An empty directory has nothing in it but itself.
    let page = lane.page("d/empty/", false).unwrap();
    assert_eq!(page.objects.len(), 1);
    assert_eq!(page.objects[0].key, "d/empty/");
    assert_eq!(lane.page("d/nothing/", false).unwrap().objects.len(), 0);
}

#[test]
fn pages_follow_each_other() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    for number in 0..25 {
        lane.put(&format!("k{number:02}"), b"").unwrap();
    }
    let (mut keys, mut cursor) = (Vec::new(), None::<ListCursor>);
    loop {
        let start = cursor.as_ref().map_or(ListStart::First, ListStart::Cursor);
        let query = ListQuery { prefix: "k", delimiter: false, start, until: None, entries: 10 };
        let page = lane.runtime.run(lane.api.list(query)).unwrap();
        assert!(page.objects.len() <= 10);
        keys.extend(page.objects.into_iter().map(|object| object.key));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(keys.len(), 25);
    assert_eq!(lane.container.requests().list, 3);
}

#[test]
fn conditions_hold() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    let put = |condition: &PutCondition| lane.put_with("a", b"x", condition, &[]);
    let kind = |result: Result<StoredObject>| result.map_err(|error| error.kind);
    let first = put(&PutCondition::IfAbsent).unwrap();
    assert_eq!(kind(put(&PutCondition::IfAbsent)), Err(ErrorKind::Conflict));
    let second = put(&PutCondition::IfVersion(first.version.clone())).unwrap();
    assert_eq!(kind(put(&PutCondition::IfVersion(first.version.clone()))), Err(ErrorKind::Conflict));
    let get = |version: &ObjectVersion| {
        lane.runtime.run(lane.api.get("a", None, Some(version))).map(drop).map_err(|error| error.kind)
    };
    assert_eq!(get(&first.version), Err(ErrorKind::SourceChanged));
    assert_eq!(get(&second.version), Ok(()));
}

#[test]
fn deletions_tell_files_from_directories() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    let delete = |keys: &[&str]| {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        lane.runtime.run(lane.api.delete(&keys)).unwrap().into_iter().collect::<Result<()>>()
    };
    lane.put("file", b"x").unwrap();
    lane.put_with("dir/", b"", &PutCondition::None, &[("hdi_isfolder", "true")]).unwrap();
    delete(&["file/", "missing", "missing/"]).unwrap();
    assert_eq!(lane.get("file", None).unwrap(), b"x");
    assert!(lane.runtime.run(lane.api.head("file/")).unwrap().is_none());
    assert!(lane.runtime.run(lane.api.head("dir/")).unwrap().is_some());
    delete(&["file", "dir/"]).unwrap();
    assert_eq!(lane.page("", false).unwrap().objects.len(), 0);
}

#[test]
fn a_file_is_not_replaced_by_the_object_of_a_directory() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    let marker =
        |mtime| lane.put_with("a/", b"", &PutCondition::None, &[("hdi_isfolder", "true"), ("mtime", mtime)]);
    lane.put("a", b"content").unwrap();
    let error = marker("1").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert_names(&error, &["an object of the same name", "rename one of them"]);
    assert_eq!(lane.get("a", None).unwrap(), b"content");
    lane.runtime.run(lane.api.delete(&["a".to_owned()])).unwrap();
    for mtime in ["1", "2"] {
        marker(mtime).unwrap();
        assert_eq!(lane.get("a", None).unwrap_err().kind, ErrorKind::SourceVanished);
        let head = lane.runtime.run(lane.api.head("a/")).unwrap().unwrap();
        assert!(head.metadata.contains(&("mtime".to_owned(), mtime.to_owned())));
    }
}

#[test]
fn objects_are_copied_inside_the_store() {
    let server = azurite();
    let lane = AzureTestLane::of(&server);
    let stored = lane.put_with("a b", b"content", &PutCondition::None, &[("k", "old")]).unwrap();
    let copy = |key: &str, version: &ObjectVersion, properties: Option<&ObjectProperties>| {
        let source = CopySource { bucket: None, key: "a b", version: Some(version), unmodified_since: None };
        let condition = &PutCondition::None;
        lane.runtime.run(lane.api.copy(CopyObject { source, key, properties, condition, renews: None }))
    };
    let metadata = |key: &str| lane.runtime.run(lane.api.head(key)).unwrap().unwrap().metadata;
    copy("b", &stored.version, None).unwrap();
    assert_eq!(lane.get("b", None).unwrap(), b"content");
    assert_eq!(metadata("b"), [("k".to_owned(), "old".to_owned())]);
    let new = vec![("k".to_owned(), "new".to_owned())];
    let properties = ObjectProperties { metadata: new.clone(), ..ObjectProperties::default() };
    copy("c", &stored.version, Some(&properties)).unwrap();
    assert_eq!((metadata("c"), lane.get("c", None).unwrap()), (new.clone(), b"content".to_vec()));
    // Onto itself, which changes the version.
    copy("a b", &stored.version, Some(&properties)).unwrap();
    assert_eq!((metadata("a b"), lane.get("a b", None).unwrap()), (new, b"content".to_vec()));
    let error = copy("a b", &stored.version, Some(&properties)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::SourceChanged, "{error}");
}

#[test]
fn new_objects_have_the_type_and_the_tier_that_the_user_wants() {
    let server = azurite();
    let new_objects =
        AzureNewObjects { content_type: Some("text/x-own".to_owned()), access_tier: Some("Cool".to_owned()) };
    let lane = AzureTestLane::new(AzureSettings { new_objects, ..new_container(&server) });
    lane.put("a", b"x").unwrap();
    lane.put_with("d/", b"", &PutCondition::None, &[("hdi_isfolder", "true")]).unwrap();
    let head = |key: &str| lane.runtime.run(lane.api.head(key)).unwrap().unwrap();
    assert_eq!(head("a").content_type.as_deref(), Some("text/x-own"));
    assert_eq!(head("a").storage_class.as_deref(), Some("Cool"));
    assert_ne!(head("d/").storage_class.as_deref(), Some("Cool"));
}

#[test]
fn each_kind_of_credentials_opens_a_container() {
    let server = azurite();
    let container = new_container(&server).container;
    let string = format!(
        "DefaultEndpointsProtocol=http;AccountName={};AccountKey={};BlobEndpoint={};",
        server.access_key, server.secret_key, server.endpoint
    );
    let port_only = format!("http://127.0.0.1:{}", server.port());
    for (variables, account, endpoint) in [
        (vec![("AZURE_STORAGE_KEY", server.secret_key)], None, Some(server.endpoint.as_str())),
        (vec![("AZURE_STORAGE_SAS_TOKEN", StoreServer::AZURITE_SAS)], None, Some(server.endpoint.as_str())),
        (vec![("AZURE_STORAGE_CONNECTION_STRING", string.as_str())], None, None),
        (vec![("AZURE_STORAGE_CONNECTION_STRING", string.as_str())], Some(server.access_key), None),
        (
            vec![("AZURE_STORAGE_ACCOUNT", server.access_key), ("AZURE_STORAGE_KEY", server.secret_key)],
            None,
            Some(port_only.as_str()),
        ),
        (vec![("AZURE_STORAGE_KEY", server.secret_key)], Some(server.access_key), Some(port_only.as_str())),
    ] {
        let lane = AzureTestLane::new(AzureSettings {
            container: container.clone(),
            account: account.map(str::to_owned),
            endpoint: endpoint.map(str::to_owned),
            environment: environment(&variables),
            ..settings("")
        });
        lane.put("a", b"x").unwrap();
        assert_eq!(lane.page("", false).unwrap().objects.len(), 1);
        let expected = format!("{}/{container}", server.endpoint);
        assert_eq!(lane.container.identity(), expected);
    }
}
