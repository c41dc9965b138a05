use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;
use hakobu_core::compression::Compression;
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::job::Mode;
use hakobu_core::location::Location;
use hakobu_core::losses::LossKind;
use hakobu_core::request::{CipherChoice, CopyRequest, Durability, LaneSetting, Transport, Verify};
use hakobu_core::store_settings::{BucketAddressing, ServerEncryption, StoreSettings};
use hakobu_transfer::disks::DisksRequest;

use super::*;
use crate::cli::{Cli, Verb};
use crate::commands::disks::disks_request;
use crate::commands::doctor::doctor_request;
use crate::settings_file::StoreOverrides;

fn arguments(line: &[&str]) -> CopyArguments {
    let words = ["hakobu", "copy"].iter().chain(line);
    match Cli::try_parse_from(words).unwrap().verb {
        Verb::Copy(arguments) => *arguments,
        other => panic!("{other:?}"),
    }
}

fn parse(line: &[&str]) -> Result<CopyRequest, Vec<Error>> {
    request(&arguments(line), Mode::Copy, None)
}

#[test]
fn nothing_but_two_places_gives_the_defaults() {
    let request = parse(&["a/", "me@h:/b"]).unwrap();
    let expected = CopyRequest {
        sources: vec![Location::local("a/")],
        target: Location::parse(b"me@h:/b").unwrap(),
        ..CopyRequest::default()
    };
    assert_eq!(request, expected);
    assert_eq!(parse(&["a", "b", "c", "t"]).unwrap().sources.len(), 3);
}

#[test]
fn every_option_reaches_the_request() {
    let request = parse(&[
        "--lanes",
        "4",
        "--cipher=none",
        "-e",
        "ssh -p 22 -i 'my key'",
        "--agent",
        "/opt/hakobu",
        "--sudo",
        "--data-address",
        "[fd00::1]",
        "--data-port",
        "4000",
        "-n",
        "--require",
        "xattr,hardlinks",
        "--verify",
        "wire",
        "--retry-for",
        "2m",
        "--durable",
        "none",
        "--transport",
        "agent",
        "--compress",
        "zstd:-3",
        "a",
        "h:b",
    ])
    .unwrap();
    assert_eq!(request.lanes, LaneSetting::Count(4));
    assert_eq!(request.cipher, CipherChoice::None);
    assert_eq!(request.compression, Compression::Level(-3));
    assert_eq!(request.ssh, ["ssh", "-p", "22", "-i", "my key"]);
    assert_eq!(request.agent.as_deref(), Some(std::path::Path::new("/opt/hakobu")));
    assert!(request.sudo && request.dry_run);
    assert_eq!(request.data_address.as_deref(), Some("fd00::1"));
    assert_eq!(request.data_port, Some(4000));
    assert_eq!(request.require, [LossKind::Xattr, LossKind::HardLinks].into());
    assert_eq!(request.verify, Verify::Wire);
    assert_eq!(request.retry_for, Duration::from_secs(120));
    assert_eq!((request.durable, request.transport), (Durability::None, Transport::Agent));
}

#[test]
fn options_for_stores_reach_the_ends_that_need_them() {
    let options = [
        "--endpoint",
        "http://h:9000/",
        "--region",
        "r",
        "--profile",
        "p",
        "--no-sign-request",
        "--request-payer",
        "--addressing=virtual",
        "--storage-class",
        "GLACIER",
        "--sse",
        "aws:kms:k",
        "--acl",
        "private",
        "--content-type",
        "a/b",
    ];
    let all = StoreSettings {
        endpoint: Some("http://h:9000".into()),
        region: Some("r".into()),
        profile: Some("p".into()),
        no_sign_request: true,
        request_payer: true,
        addressing: BucketAddressing::Virtual,
        storage_class: Some("GLACIER".into()),
        encryption: Some(ServerEncryption::Kms(Some("k".into()))),
        acl: Some("private".into()),
        content_type: Some("a/b".into()),
        retry_for: None,
        credentials: Default::default(),
    };
    let stores = |mode, ends: &[&str]| {
        let request = request(&arguments(&[&options, ends].concat()), mode, None).unwrap();
        (request.source_store, request.target_store)
    };
    let reading = all.clone().for_reading();
    assert_eq!(
        reading,
        StoreSettings { storage_class: None, encryption: None, acl: None, content_type: None, ..all.clone() }
    );
    assert_eq!(stores(Mode::Copy, &["a", "s3://bucket"]).1, all);
    assert_eq!(stores(Mode::Copy, &["s3://bucket/a", "b"]).0, reading);
    assert_eq!(stores(Mode::Copy, &["s3://one/a", "s3://two/b"]), (reading.clone(), all.clone()));
    // A store that is opened once has one kind of settings.
    assert_eq!(stores(Mode::Copy, &["s3://one/a", "s3://one/b"]), (all.clone(), all.clone()));
    assert_eq!(stores(Mode::Compare, &["a", "s3://one/b"]), (reading.clone(), reading.clone()));
    let (source, target) = stores(Mode::Copy, &["--source-profile", "q", "s3://one/a", "s3://one/b"]);
    assert_eq!(source, StoreSettings { profile: Some("q".into()), ..reading });
    assert_eq!(target, all);
}

#[test]
fn single_stores_have_options_of_their_own() {
    let mut typed = arguments(&["--region", "r", "s3://one/a", "s3://two/b"]);
    let of = |store: &str, values: &[(&'static str, &str)]| StoreOverrides::with(store, values);
    typed.store.overrides = vec![
        of(
            "s3://two",
            &[("profile", "p"), ("request-payer", "no"), ("sse", "AES256"), ("addressing", "path")],
        ),
        of("s3://one", &[("no-sign-request", "yes"), ("endpoint", "http://h")]),
    ];
    let request = request(&typed, Mode::Copy, None).unwrap();
    let region = Some("r".to_owned());
    let source = StoreSettings {
        endpoint: Some("http://h".into()),
        no_sign_request: true,
        region: region.clone(),
        ..StoreSettings::default()
    };
    let target = StoreSettings {
        profile: Some("p".into()),
        region,
        encryption: Some(ServerEncryption::Aes256),
        addressing: BucketAddressing::Path,
        ..StoreSettings::default()
    };
    assert_eq!((request.source_store, request.target_store), (source, target));
}

#[test]
fn the_environment_names_ssh_only_where_no_option_does() {
    let environment = || Some(OsString::from("myssh -4"));
    let with = |line: &[&str]| request(&arguments(line), Mode::Copy, environment()).unwrap().ssh;
    assert_eq!(with(&["a", "b"]), ["myssh", "-4"]);
    assert_eq!(with(&["a", "b", "--ssh", "ssh"]), ["ssh"]);
    assert_eq!(request(&arguments(&["a", "b"]), Mode::Copy, Some(OsString::new())).unwrap().ssh, ["ssh"]);
}

#[test]
fn what_this_version_lacks_is_refused_by_name() {
    for (line, option, words) in [
        (&["--compress", "zstd:20"][..], "--compress", "-7 to 19"),
        (&["--compress", "gzip"], "--compress", "auto, none, zstd"),
        (&["--bwlimit", "fast"], "--bwlimit", "number"),
        (&["--bwlimit", "5000"], "--bwlimit", "has no unit"),
        (&["--bwlimit", "08:00,20M 25:00,off"], "--bwlimit", "at column 11"),
        (&["--memory", "1G"], "--memory", "not in this version"),
        (&["--lanes", "0"], "--lanes", "1 to 64"),
        (&["--lanes", "65"], "--lanes", "1 to 64"),
        (&["--lanes", "many"], "--lanes", "1 to 64"),
        (&["--retry-for", "30"], "--retry-for", "unit"),
        (&["--require", "colour"], "--require", "is not one of"),
        (&["--ssh", "ssh 'x"], "--ssh", "quote"),
        (&["--agent", "--agent=-x"], "--agent", "path"),
        (&["--data-address", "h:22"], "--data-address", "--data-port"),
        (&["--data-address", ""], "--data-address", "host name"),
    ] {
        // `--agent -x` is caught by the parser; `--agent=-x` reaches the check.
        let line = if option == "--agent" { &line[1..] } else { line };
        let errors = parse(&[line, &["a", "b"]].concat()).unwrap_err();
        assert_eq!(errors.len(), 1, "{line:?}");
        assert_eq!((errors[0].kind, &errors[0].at[..]), (ErrorKind::Usage, option.as_bytes()));
        assert!(errors[0].detail.contains(words), "{line:?}: {}", errors[0]);
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let errors = parse(&["--lanes", "x", "--bwlimit", "1x", "s3://b/k", ""]).unwrap_err();
    assert_eq!(errors.len(), 4, "{errors:?}");
}

#[test]
fn what_no_target_has_is_a_refusal_not_a_typing_error() {
    let errors = parse(&["--require", "direct", "a", "b"]).unwrap_err();
    assert_eq!(errors[0].kind, ErrorKind::Requirement);
}

fn disks(line: &[&str]) -> Result<DisksRequest, Vec<Error>> {
    let words = ["hakobu", "disks"].iter().chain(line);
    match Cli::try_parse_from(words).unwrap().verb {
        Verb::Disks(arguments) => disks_request(&arguments, Some("ssh -v".into())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_host_is_typed_as_in_a_location_but_without_a_path() {
    assert_eq!(disks(&[]).unwrap().host, None);
    for (typed, destination, port) in [
        ("host", "host", None),
        ("host:", "host", None),
        ("me@host", "me@host", None),
        ("[::1]", "::1", None),
        ("ssh://me@host:2222", "me@host", Some(2222)),
        ("ssh://host/", "host", None),
    ] {
        let host = disks(&[typed]).unwrap().host.unwrap();
        assert_eq!((host.destination().as_str(), host.port), (destination, port), "{typed}");
    }
    for typed in ["", "/dev/sda", "./host", "host:/dev", "ssh://host/dev", "a b", "s3://bucket", "::1"] {
        assert_eq!(disks(&[typed]).unwrap_err().len(), 1, "{typed}");
    }
}

#[test]
fn the_way_to_the_disks_is_that_of_a_copy() {
    let request = disks(&["--agent", "/opt/hakobu", "--sudo", "host"]).unwrap();
    assert_eq!((request.agent, request.sudo), (Some("/opt/hakobu".into()), true));
    assert_eq!(request.ssh, ["ssh", "-v"]);
    assert_eq!(disks(&["-e", "ssh -p 22", "host"]).unwrap().ssh, ["ssh", "-p", "22"]);
    assert!(disks(&["-e", "ssh 'x", "host"]).is_err());
}

#[test]
fn a_doctor_takes_a_host_as_the_list_of_disks_does() {
    let doctor = |line: &[&str]| {
        let words = ["hakobu", "doctor"].iter().chain(line);
        match Cli::try_parse_from(words).unwrap().verb {
            Verb::Doctor(arguments) => doctor_request(&arguments, Some("ssh -v".into())),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(doctor(&[]).unwrap().host, None);
    let request = doctor(&["--agent", "/opt/hakobu", "--sudo", "me@host"]).unwrap();
    assert_eq!(request.host.unwrap().destination(), "me@host");
    assert_eq!((request.agent, request.sudo), (Some("/opt/hakobu".into()), true));
    assert_eq!(request.ssh, ["ssh", "-v"]);
    assert_eq!(doctor(&["host:/dev"]).unwrap_err().len(), 1);
    assert_eq!(doctor(&["--sudo"]).unwrap_err().len(), 1);
}
