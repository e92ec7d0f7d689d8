-- Who did what to what, and to how many.
INSERT INTO outbox_action (at, who, action, target, count)
VALUES ({now}, ?1, ?2, ?3, ?4)
