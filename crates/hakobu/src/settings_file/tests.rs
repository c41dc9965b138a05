use std::ffi::{OsStr, OsString};

use crate::settings_file::host_settings::{HERE, RunHosts};
use hakobu_core::error::Error;

use super::checker::{Checker, WrongValue};
use super::hosts::{run_hosts, run_of_one};
use super::keywords::KEYWORDS;
use super::options::has;
use super::*;
use crate::cli;

fn checked(line: &str) -> Result<(), WrongValue> {
    let (name, value) = line.split_once(' ').unwrap();
    let keyword = KEYWORDS.iter().find(|keyword| keyword.name == name).unwrap();
    Checker::new().check(keyword, value)
}

#[test]
fn each_keyword_is_an_option_of_copy_and_takes_what_that_takes() {
    let command = cli::command();
    for keyword in &KEYWORDS {
        assert!(has(&command, "copy", &keyword.id()), "{}", keyword.name);
    }
    let lines = [
        "ssh ssh -p 22 -i 'my key'",
        "agent /opt/hakobu",
        "sudo yes",
        "transport sftp",
        "data-address fd00::1",
        "data-port 4000",
        "password-file /etc/secret",
        "lanes 8",
        "cipher none",
        "compress zstd:3",
        "bwlimit 08:00,20M 19:00,off",
        "iops-limit 500",
        "source-p99 20",
        "retry-for 10m",
        "verify medium",
        "durable none",
        "require acl,xattr",
        "preserve no-owner",
        "allow setuid",
        "by-name no",
        "nice yes",
        "endpoint http://localhost:9000",
        "region eu-west-1",
        "profile backup",
        "no-sign-request yes",
        "request-payer no",
        "addressing path",
        "storage-class STANDARD_IA",
        "sse aws:kms:alias/backup",
        "acl bucket-owner-full-control",
        "content-type application/octet-stream",
    ];
    assert_eq!(lines.len(), KEYWORDS.len());
    for line in lines {
        assert_eq!(checked(line), Ok(()), "{line}");
    }
}

#[test]
fn a_value_that_is_none_for_its_option_is_told_with_its_place() {
    for (line, column, words) in [
        ("sudo maybe", 0, "it is true or false"),
        ("cipher rot13", 0, "it is one of auto, aes-128-gcm"),
        ("data-port 70000", 0, "70000 is not in 1..=65535"),
        ("lanes many", 0, "must be auto or a number"),
        ("bwlimit 08:00,20M 25:00,off", 10, "not a time of day"),
        ("ssh ssh 'x", 0, "quote"),
        ("agent -x", 0, "path of hakobu"),
        ("require gold", 0, "is not one of"),
        ("retry-for soon", 0, ""),
        ("endpoint localhost:9000", 0, "http://HOST:PORT"),
        ("addressing host", 0, "it is one of auto, path, virtual"),
        ("sse aes", 0, "must be AES256"),
    ] {
        let (at, said) = checked(line).unwrap_err();
        assert!(at == column && said.contains(words) && !said.is_empty(), "{line}: {at} {said}");
    }
}

#[test]
fn machines_are_found_where_they_are_named() {
    let run = |line: &str| {
        let words: Vec<OsString> = format!("hakobu {line}").split(' ').map(OsString::from).collect();
        let matches = cli::command_for(&words).try_get_matches_from(&words).unwrap();
        let (verb, typed) = matches.subcommand().unwrap();
        run_hosts(verb, typed)
    };
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    let two = run("copy a me@one:/b ssh://two:22/c");
    assert_eq!(two.hosts, ["two", "one"]);
    assert_eq!(two.pairs, [pair(HERE, "two"), pair("one", "two")]);
    assert_eq!(run("sync a rsync://mirror/m/").hosts, ["mirror"]);
    assert_eq!(run("verify a b"), RunHosts { hosts: vec![HERE.into()], pairs: vec![pair(HERE, HERE)] });
    assert_eq!(run("digest h:/a").hosts, ["h"]);
    assert_eq!(run("ls s3://bucket/a").hosts, ["s3://bucket"]);
    let stores = run("copy s3://one/a gs://two/b");
    assert_eq!(stores.hosts, ["s3://one", "gs://two"]);
    assert_eq!(stores.pairs, [pair("s3://one", "gs://two")]);
    assert_eq!(run("copy a null://").hosts, [HERE]);
    assert_eq!(run("doctor me@h").hosts, ["h"]);
    assert_eq!(run("disks").hosts, [HERE]);
    assert_eq!(run_of_one(OsStr::new("me@h")).hosts, ["h"]);
    assert_eq!(run_of_one(OsStr::new("h:/a")).hosts, ["h"]);
    assert_eq!(run_of_one(OsStr::new("/a")).hosts, [HERE]);
    assert_eq!(run_of_one(OsStr::new("s3://bucket")).hosts, ["s3://bucket"]);
}

#[test]
fn an_error_says_which_file_the_option_comes_from() {
    let error = |at: &str| Error::new(hakobu_core::ErrorKind::Usage, "option", "no").at(at);
    let from =
        [FromFile { keyword: "verify", value: "medium".into(), place: "/etc/hakobu/config.toml:3".into() }];
    let mut errors = [error("--verify"), error("--lanes")];
    name_places(&mut errors, &from);
    assert_eq!(errors[0].to_string(), "option --verify: no (it comes from /etc/hakobu/config.toml:3)");
    assert_eq!(errors[1].to_string(), "option --lanes: no");
}
