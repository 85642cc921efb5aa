//! `doctor`: reports this machine's equipment and its gaps.

use super::options::PlaceArguments;
use crate::committer::new_committer_id;
use crate::print;
use anyhow::Result;
use clap::Args;
use hopeval_cluster::{doctor as facts, exit};

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn doctor(places: &PlaceArguments, arguments: DoctorArguments) -> Result<u8> {
    let opened = places.open();
    let probe = || match &opened {
        Ok(places) => {
            let name = format!("doctor/{}", new_committer_id());
            let put = places.store.put(&name, b"hopeval".to_vec().into());
            put.and_then(|()| places.store.delete(&name)).map_err(|error| error.to_string())
        }
        Err(error) => Err(format!("{error:#}")),
    };
    let folder = opened.as_ref().ok().and_then(|places| places.store.local_path());
    let subject = facts::DoctorSubject { store: &places.store, folder, probe: &probe, is_set: &facts::env_is_set };
    let report = facts::examine(&subject);
    if arguments.json {
        let fact = |fact: &facts::DoctorFact| {
            let health = format!("{:?}", fact.health).to_lowercase();
            serde_json::json!({"name": fact.name, "found": fact.found, "health": health, "note": fact.note})
        };
        print::line(&serde_json::to_string(&report.facts.iter().map(fact).collect::<Vec<_>>())?);
    } else {
        print::line(&report.to_string());
    }
    Ok(if report.health() == facts::FactHealth::Broken { exit::USAGE } else { exit::DONE })
}
