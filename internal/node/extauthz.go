package node

import (
	"fmt"

	"github.com/weirlimit/weir/internal/frontend/extauthz"
)

// openExtAuthz builds Envoy's external authorization.
func openExtAuthz(s *Server) (grpcService, error) {
	if !s.conf.ExtAuthz.Enabled {
		return grpcService{}, nil
	}
	opt, err := s.authorize()
	if err != nil {
		return grpcService{}, fmt.Errorf("--ext-authz: %w", err)
	}
	svc, err := extauthz.New(extauthz.Options{Authorize: opt})
	if err != nil {
		return grpcService{}, fmt.Errorf("--ext-authz: %w", err)
	}
	if s.conf.ForwardAuth.Prefix == "" { // else it has told
		s.coverage.warnOfAsked()
	}
	return grpcService{name: extauthz.Name, register: svc.Register}, nil
}
