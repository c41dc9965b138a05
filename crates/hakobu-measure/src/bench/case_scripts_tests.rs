use super::super::login::{BenchLogin, ReverseLogin};
use super::super::plan::{PlanFacts, plan};
use super::super::tools::{MachineTools, WANTED};
use super::*;

fn names() -> ScriptNames {
    ScriptNames {
        near_source: NamedFile::at("/dev/shm/hb.n/source/random.1"),
        near_target: NamedFile::at("/dev/shm/hb.n/target/random.1"),
        far_source: NamedFile::at("/dev/shm/hb.f/source/random.1"),
        far_target: NamedFile::at("/dev/shm/hb.f/target/random.1"),
        port: 40_123,
        near_port: Some(("192.0.2.1".into(), 20_001)),
        back: Some(ReverseLogin { host: "me@ws".into(), port: Some(2222) }),
        far_hakobu: "/dev/shm/hb.f/hakobu".into(),
        near_hakobu: "/dev/shm/hb.n/hakobu".into(),
        far_report: Some("/dev/shm/hb.f/report.json".into()),
    }
}

/// The user's input, with paths that need quoting for this program and the one on the host.
fn typed() -> TypedNamesShown {
    let login =
        BenchLogin { typed: "h".into(), user: None, host: "h".into(), port: None, ssh: vec!["ssh".into()] };
    TypedNamesShown {
        login: Some(login),
        hakobu: "/my programs/hakobu".into(),
        agent: Some("/it's there/hakobu".into()),
        address: ("192.0.2.2".into(), 40_123),
    }
}

fn tools(there: Netcat) -> Tools {
    let programs = || WANTED.map(str::to_owned).to_vec();
    let machine =
        |netcat| MachineTools { programs: programs(), netcat: Some(netcat), ..MachineTools::default() };
    let ssh_ciphers = vec!["aes128-gcm@openssh.com".to_owned()];
    Tools { here: machine(Netcat::OpenBsd), there: Some(machine(there)), ssh_ciphers }
}

fn of(case: &BenchCase) -> CaseScripts {
    lines(case, &names(), &tools(Netcat::OpenBsd), &typed()).unwrap()
}

#[test]
fn dd_and_ssh_are_what_people_type() {
    let mut case = BenchCase::plain(Method::Dd, DataDirection::ToHost);
    let line = of(&case);
    assert_eq!(line.near, "dd if=\"$SOURCE\" bs=64k status=none | \"$SSH\" \"$HOST\" \"$FAR\"");
    assert_eq!(line.far.as_deref(), Some("sh -c 'dd of=/dev/null bs=64k status=none'"));
    assert_eq!(
        line.shown,
        "dd if=\"$SOURCE\" bs=64k status=none | ssh h \"dd of=/dev/null bs=64k status=none\""
    );
    case.cipher = Some("aes128-gcm@openssh.com".to_owned());
    case.compressor = Compressor::Pigz;
    case.ends = EndKinds::DiskToDisk;
    case.block_bytes = 4 << 20;
    let line = of(&case);
    assert_eq!(
        line.shown,
        "dd if=\"$SOURCE\" bs=4M status=none | pigz -c | ssh -c aes128-gcm@openssh.com h \
         \"pigz -dc | dd of=$TARGET bs=4M status=none conv=fsync\""
    );
    case.direction = DataDirection::FromHost;
    let line = of(&case);
    let far = "sh -c 'dd if=/dev/shm/hb.f/source/random.1 bs=4M status=none | pigz -c'";
    assert_eq!(line.far.as_deref(), Some(far));
    assert!(line.near.ends_with("\"$FAR\" | pigz -dc | dd of=\"$TARGET\" bs=4M status=none conv=fsync"));
}

#[test]
fn each_nc_ends_in_its_own_way() {
    let to = BenchCase::plain(Method::Nc, DataDirection::ToHost);
    let from = BenchCase::plain(Method::Nc, DataDirection::FromHost);
    for (kind, receives, sends) in [
        (Netcat::OpenBsd, "nc -l 40123 |", "| nc -N -l 40123"),
        (Netcat::Ncat, "nc --recv-only -l 40123 |", "| nc --send-only -l 40123"),
        (Netcat::Traditional, "nc -l -p 40123 |", "| nc -q 0 -l -p 40123"),
    ] {
        let listener = |case| match lines(case, &names(), &tools(kind), &typed()).unwrap().listener {
            Some(ListenCommand::There(script)) => script,
            other => panic!("{other:?}"),
        };
        assert!(listener(&to).starts_with(&format!("sh -c '{receives}")));
        assert!(listener(&from).ends_with(&format!("{sends}'")));
    }
    assert!(of(&to).near.ends_with("| nc -N \"$ADDRESS\" \"$PORT\""));
    assert_eq!(
        of(&to).shown,
        "ssh h \"nc -l 40123 | dd of=/dev/null bs=64k status=none\" & sleep 1; \
         dd if=\"$SOURCE\" bs=64k status=none | nc -N 192.0.2.2 40123; wait"
    );
}

#[test]
fn what_the_host_connects_to_listens_here() {
    let there = |way, direction, ends| BenchCase {
        starter: Initiator::There,
        ends,
        ..BenchCase::plain(way, direction)
    };
    let line = of(&there(Method::Mbuffer, DataDirection::FromHost, EndKinds::DiskToDisk));
    assert_eq!(line.near, "\"$SSH\" \"$HOST\" \"$FAR\"");
    assert_eq!(
        line.far.as_deref(),
        Some("sh -c 'mbuffer -q -s 64k -m 64M -i /dev/shm/hb.f/source/random.1 -O 192.0.2.1:20001'")
    );
    let script = "mbuffer -q -s 64k -m 64M -I 20001 >\"$TARGET\" && sync \"$TARGET\"";
    assert_eq!(line.listener, Some(ListenCommand::Here(script.to_owned())));
    assert_eq!(
        line.shown,
        format!(
            "({script}) & sleep 1; ssh h \"mbuffer -q -s 64k -m 64M -i $SOURCE -O 192.0.2.1:20001\"; wait"
        )
    );
    let line = of(&there(Method::Nc, DataDirection::ToHost, EndKinds::MemoryToNothing));
    let script = "dd if=\"$SOURCE\" bs=64k status=none | nc -N -l 20001";
    assert_eq!(line.listener, Some(ListenCommand::Here(script.to_owned())));
    assert_eq!(
        line.far.as_deref(),
        Some("sh -c 'nc -d 192.0.2.1 20001 | dd of=/dev/null bs=64k status=none'")
    );
    // A host that sees no address of this machine cannot connect to it.
    let case = there(Method::Nc, DataDirection::ToHost, EndKinds::MemoryToNothing);
    let nowhere = ScriptNames { near_port: None, ..names() };
    assert_eq!(lines(&case, &nowhere, &tools(Netcat::OpenBsd), &typed()), None);
}

#[test]
fn hakobu_goes_with_the_agent_that_is_meant_whoever_starts() {
    let compressed = BenchCase {
        compressor: Compressor::Off,
        ..BenchCase::plain(Method::Hakobu, DataDirection::FromHost)
    };
    let line = of(&compressed);
    assert_eq!(
        line.near,
        "\"$HAKOBU\" copy -q --report \"$REPORT\" --agent /dev/shm/hb.f/hakobu --compress none \
         \"$HAKOBU_HOST\"/dev/shm/hb.f/source/random.1 \"$TARGET\""
    );
    assert_eq!(
        line.shown,
        r#"'/my programs/hakobu' copy -q --agent '/it'\''s there/hakobu' --compress none h:"$SOURCE" /dev/null"#
    );
    let there = BenchCase {
        starter: Initiator::There,
        ends: EndKinds::MemoryToMemory,
        ..BenchCase::plain(Method::Hakobu, DataDirection::ToHost)
    };
    let line = of(&there);
    assert_eq!(
        line.far.as_deref(),
        Some(
            "sh -c 'HAKOBU_SETTINGS=none /dev/shm/hb.f/hakobu copy -q --report /dev/shm/hb.f/report.json --ssh \"ssh -o BatchMode=yes\" \
             --agent /dev/shm/hb.n/hakobu ssh://me@ws:2222/dev/shm/hb.n/source/random.1 /dev/shm/hb.f/target/random.1'"
        )
    );
    assert_eq!(
        line.shown,
        r#"ssh h "'/it'\\''s there/hakobu' copy -q --ssh \"ssh -o BatchMode=yes\" --agent '/my programs/hakobu' ssh://me@ws:2222$SOURCE $TARGET""#
    );
}

#[test]
fn the_host_starts_by_a_login_back() {
    let case = |way, direction| BenchCase { starter: Initiator::There, ..BenchCase::plain(way, direction) };
    let far = |way, direction| of(&case(way, direction)).far.unwrap();
    assert_eq!(
        far(Method::Dd, DataDirection::ToHost),
        "sh -c 'ssh -o BatchMode=yes -p 2222 me@ws \"dd if=/dev/shm/hb.n/source/random.1 bs=64k status=none\" \
         </dev/null | dd of=/dev/null bs=64k status=none'"
    );
    assert!(
        far(Method::Scp, DataDirection::FromHost)
            .contains(" -P 2222 /dev/shm/hb.f/source/random.1 me@ws:/dev/null")
    );
    assert!(far(Method::Hakobu, DataDirection::FromHost).ends_with(" ssh://me@ws:2222/dev/null'"));
    assert_eq!(of(&case(Method::Dd, DataDirection::ToHost)).near, "\"$SSH\" \"$HOST\" \"$FAR\"");
}

#[test]
fn every_line_of_a_full_plan_is_for_any_shell_and_what_is_shown_can_be_typed() {
    for has_host in [true, false] {
        let ground =
            PlanFacts { has_host, full: true, tools: tools(Netcat::OpenBsd), ..PlanFacts::default() };
        let (cases, _) = plan(&ground);
        for case in &cases {
            let typed = if has_host { typed() } else { TypedNamesShown { login: None, ..typed() } };
            let line = lines(case, &names(), &ground.tools, &typed).unwrap_or_else(|| panic!("{case:?}"));
            let listener = line.listener.as_ref().and_then(|listener| match listener {
                ListenCommand::There(script) => Some(script),
                ListenCommand::Here(_) => None,
            });
            for far in line.far.iter().chain(listener) {
                let script = far.strip_prefix("sh -c '").and_then(|far| far.strip_suffix('\'')).unwrap();
                assert!(!script.contains(['\'', '\n', '\\', '!']), "{script}");
            }
            for ours in ["/dev/shm", "hb.", "$FAR", "$SSH", "$HOST", "$HAKOBU", "$ADDRESS", "$PORT", "REPORT"]
            {
                assert!(!line.shown.contains(ours), "{ours} in {}", line.shown);
            }
            // Both the script and the shown line must be valid for a shell.
            for script in [&line.near, &line.shown] {
                let check = std::process::Command::new("sh").args(["-n", "-c", script]).status().unwrap();
                assert!(check.success(), "{script}");
            }
        }
    }
}

#[test]
fn what_cannot_be_is_none() {
    let none = |case: BenchCase| assert_eq!(lines(&case, &names(), &tools(Netcat::OpenBsd), &typed()), None);
    none(BenchCase::plain(Method::Rsync, DataDirection::ToHost));
    none(BenchCase::plain(Method::Scp, DataDirection::Here));
    none(BenchCase::plain(Method::Mbuffer, DataDirection::FromHost));
    none(BenchCase { starter: Initiator::There, ..BenchCase::plain(Method::Mbuffer, DataDirection::ToHost) });
    // A name that a shell would interpret never gets this far, but would be rejected here.
    let odd = ScriptNames { far_target: NamedFile::at("/it's"), ..names() };
    let case =
        BenchCase { ends: EndKinds::MemoryToMemory, ..BenchCase::plain(Method::Dd, DataDirection::ToHost) };
    assert_eq!(lines(&case, &odd, &tools(Netcat::OpenBsd), &typed()), None);
}
