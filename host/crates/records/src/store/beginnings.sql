ALTER TABLE audit_restarts ADD COLUMN line TEXT;
