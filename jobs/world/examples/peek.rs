fn main() {
    for s in [hopeval_world::Split::Train, hopeval_world::Split::Eval] {
        let mut st = hopeval_world::WorldSettings::new(40, 12392, 1, s);
        st.candidate_texts = false;
        let w = hopeval_world::World::new(st).unwrap();
        for i in 0..22 {
            let q = w.question(i).unwrap();
            println!("{} {} | {} | {:?} | {:?}\n    {}", q.kind, q.hops, q.text, q.answers, q.strata, q.rationale);
            if i < 3 {
                println!("{}", serde_json::to_string(&q).unwrap());
                for g in &q.gold {
                    println!("    [{}] {}", g.title, w.passage_by_id(&g.id).unwrap().text);
                }
            }
        }
    }
}
