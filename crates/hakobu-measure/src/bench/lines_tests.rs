use super::super::plan::{Ground, plan};
use super::super::tools::{Machine, WANTED};
use super::*;

fn names() -> Names {
    Names {
        near_source: "/dev/shm/hb.n/source/random.1".into(),
        near_target: "/dev/shm/hb.n/target/random.1".into(),
        far_source: "/dev/shm/hb.f/source/random.1".into(),
        far_target: "/dev/shm/hb.f/target/random.1".into(),
        port: 40_123,
        back: Some(Back { host: "me@ws".into(), port: Some(2222) }),
        far_hakobu: "/dev/shm/hb.f/hakobu".into(),
        near_hakobu: "/opt/bin/hakobu".into(),
    }
}

fn tools(there: Netcat) -> Tools {
    let machine = |netcat| Machine { programs: WANTED.map(str::to_owned).to_vec(), netcat: Some(netcat) };
    let ssh_ciphers = vec!["aes128-gcm@openssh.com".to_owned()];
    Tools { here: machine(Netcat::OpenBsd), there: Some(machine(there)), ssh_ciphers }
}

fn of(case: &Case) -> Lines {
    lines(case, &names(), &tools(Netcat::OpenBsd)).unwrap()
}

#[test]
fn dd_and_ssh_are_what_people_type() {
    let mut case = Case::plain(Way::Dd, Direction::ToHost);
    let line = of(&case);
    assert_eq!(line.near, "dd if=\"$SOURCE\" bs=64k status=none | \"$SSH\" \"$HOST\" \"$FAR\"");
    assert_eq!(line.far.as_deref(), Some("sh -c 'dd of=/dev/null bs=64k status=none'"));
    assert_eq!(
        line.shown,
        "dd if=$SOURCE bs=64k status=none | ssh $HOST 'dd of=/dev/null bs=64k status=none'"
    );
    case.cipher = Some("aes128-gcm@openssh.com".to_owned());
    case.compressor = Compressor::Pigz;
    case.ends = Ends::DiskToDisk;
    case.block_bytes = 4 << 20;
    let line = of(&case);
    assert_eq!(
        line.shown,
        "dd if=$SOURCE bs=4M status=none | pigz -c | ssh -c aes128-gcm@openssh.com $HOST \
         'pigz -dc | dd of=$TARGET bs=4M status=none conv=fsync'"
    );
    case.direction = Direction::FromHost;
    let line = of(&case);
    let far = "sh -c 'dd if=/dev/shm/hb.f/source/random.1 bs=4M status=none | pigz -c'";
    assert_eq!(line.far.as_deref(), Some(far));
    assert!(line.near.ends_with("\"$FAR\" | pigz -dc | dd of=\"$TARGET\" bs=4M status=none conv=fsync"));
}

#[test]
fn each_nc_ends_in_its_own_way() {
    let to = Case::plain(Way::Nc, Direction::ToHost);
    let from = Case::plain(Way::Nc, Direction::FromHost);
    for (kind, receives, sends) in [
        (Netcat::OpenBsd, "nc -l 40123 |", "| nc -N -l 40123"),
        (Netcat::Ncat, "nc --recv-only -l 40123 |", "| nc --send-only -l 40123"),
        (Netcat::Traditional, "nc -l -p 40123 |", "| nc -q 0 -l -p 40123"),
    ] {
        let line = |case| lines(case, &names(), &tools(kind)).unwrap();
        assert!(line(&to).listener.unwrap().starts_with(&format!("sh -c '{receives}")));
        assert!(line(&from).listener.unwrap().ends_with(&format!("{sends}'")));
    }
    assert!(of(&to).near.ends_with("| nc -N \"$ADDRESS\" \"$PORT\""));
    assert!(of(&to).shown.starts_with("there: nc -l $PORT | dd of=/dev/null"), "{}", of(&to).shown);
}

#[test]
fn the_host_starts_by_a_login_back() {
    let case = |way, direction| Case { starter: Starter::There, ..Case::plain(way, direction) };
    let far = |way, direction| of(&case(way, direction)).far.unwrap();
    assert_eq!(
        far(Way::Dd, Direction::ToHost),
        "sh -c 'ssh -o BatchMode=yes -p 2222 me@ws \"dd if=/dev/shm/hb.n/source/random.1 bs=64k status=none\" \
         </dev/null | dd of=/dev/null bs=64k status=none'"
    );
    assert!(
        far(Way::Scp, Direction::FromHost).contains(" -P 2222 /dev/shm/hb.f/source/random.1 me@ws:/dev/null")
    );
    assert!(far(Way::Hakobu, Direction::FromHost).ends_with(" ssh://me@ws:2222/dev/null'"));
    assert!(
        far(Way::Hakobu, Direction::ToHost)
            .contains("hakobu copy -q --agent /opt/bin/hakobu --ssh \"ssh -o BatchMode=yes\" ")
    );
    assert_eq!(of(&case(Way::Dd, Direction::ToHost)).near, "\"$SSH\" \"$HOST\" \"$FAR\"");
}

#[test]
fn every_line_of_a_full_plan_is_for_any_shell_and_shows_no_path_of_ours() {
    for has_host in [true, false] {
        let ground = Ground { has_host, full: true, tools: tools(Netcat::OpenBsd), ..Ground::default() };
        let (cases, _) = plan(&ground);
        for case in &cases {
            let line = lines(case, &names(), &ground.tools).unwrap_or_else(|| panic!("{case:?}"));
            for far in line.far.iter().chain(&line.listener) {
                let script = far.strip_prefix("sh -c '").and_then(|far| far.strip_suffix('\'')).unwrap();
                assert!(!script.contains(['\'', '\n', '\\', '!']), "{script}");
            }
            for ours in ["/dev/shm", "$FAR", "\"", "hb.", "40123"] {
                assert!(!line.shown.contains(ours), "{ours} in {}", line.shown);
            }
            // The script is one, and a shell reads it.
            let check = std::process::Command::new("sh").args(["-n", "-c", &line.near]).status().unwrap();
            assert!(check.success(), "{}", line.near);
        }
    }
}

#[test]
fn what_cannot_be_is_none() {
    let none = |case: Case| assert_eq!(lines(&case, &names(), &tools(Netcat::OpenBsd)), None);
    none(Case::plain(Way::Rsync, Direction::ToHost));
    none(Case::plain(Way::Scp, Direction::Here));
    none(Case::plain(Way::Mbuffer, Direction::FromHost));
    none(Case { starter: Starter::There, ..Case::plain(Way::Nc, Direction::ToHost) });
    // A name that a shell would read never gets that far, but would stop here.
    let odd = Names { far_target: "/it's".into(), ..names() };
    let case = Case { ends: Ends::MemoryToMemory, ..Case::plain(Way::Dd, Direction::ToHost) };
    assert_eq!(lines(&case, &odd, &tools(Netcat::OpenBsd)), None);
}
